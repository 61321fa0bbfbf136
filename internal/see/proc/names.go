package proc

// The names of the system's files, for [FS.Keep] and [FS.Read].
const (
	FileStat       = "proc/stat"
	FileMemory     = "proc/meminfo"
	FileLoad       = "proc/loadavg"
	FileDisks      = "proc/diskstats"
	FileInterfaces = "proc/net/dev"
	FileUptime     = "proc/uptime"
	FileARC        = "proc/spl/kstat/zfs/arcstats"
)

// FilePressure is the pressure file of a resource: cpu, memory, io or irq.
func FilePressure(resource string) string { return "proc/pressure/" + resource }
