package sample

// This file reads the machine's own files in a pass.

import (
	"context"
	"runtime"

	"topside/internal/see/cgroup"
	"topside/internal/see/proc"
)

// The names of system figures in [System.Absent].
const (
	FigureCPU         = "cpu"
	FigureMemory      = "memory"
	FigureLoad        = "load"
	FigureARC         = "zfs_arc"
	FigureDisks       = "disks"
	FigureInterfaces  = "interfaces"
	FigureFilesystems = "filesystems"
	FigureLimits      = "own_limits"
	FigureUptime      = "uptime"
	FigurePressure    = "pressure_" // and the resource
)

// pressureResources are the resources that PSI knows.
var pressureResources = []string{"cpu", "memory", "io", "irq"}

// A systemReader keeps the system's files open between passes.
type systemReader struct {
	fs          proc.FS
	hierarchies *cgroup.Hierarchies
	filesystems *proc.Filesystems

	stat, memory, load, disks, interfaces, uptime, arc *proc.KeptFile
	pressure                                           map[string]*proc.KeptFile
}

func newSystemReader(fs proc.FS, h *cgroup.Hierarchies) *systemReader {
	r := &systemReader{
		fs: fs, hierarchies: h, filesystems: fs.NewFilesystems(),
		stat: fs.Keep(proc.FileStat), memory: fs.Keep(proc.FileMemory), load: fs.Keep(proc.FileLoad),
		disks: fs.Keep(proc.FileDisks), interfaces: fs.Keep(proc.FileInterfaces),
		uptime: fs.Keep(proc.FileUptime), arc: fs.Keep(proc.FileARC),
		pressure: map[string]*proc.KeptFile{},
	}
	for _, resource := range pressureResources {
		r.pressure[resource] = fs.Keep(proc.FilePressure(resource))
	}
	return r
}

func (r *systemReader) close() {
	for _, f := range []*proc.KeptFile{r.stat, r.memory, r.load, r.disks, r.interfaces, r.uptime, r.arc} {
		f.Close()
	}
	for _, f := range r.pressure {
		f.Close()
	}
}

// read reads everything but the filesystems, which may hang.
func (r *systemReader) read(pass *Pass) {
	s := &pass.System
	s.Absent = map[string]proc.Reason{}
	if uptime, err := parsed(r.uptime, proc.ParseUptime); err != nil {
		s.Absent[FigureUptime] = r.fs.ReasonOf(err)
	} else {
		pass.Uptime = uptime
	}
	pass.BootID, _ = r.fs.BootID()
	s.Kernel = keep(r, s, FigureCPU, r.stat, proc.ParseKernelStat)
	s.Memory = keep(r, s, FigureMemory, r.memory, proc.ParseMemory)
	s.Load = keep(r, s, FigureLoad, r.load, proc.ParseLoad)
	s.ARC = keep(r, s, FigureARC, r.arc, proc.ParseARC)
	s.Pressure = map[string]*proc.Pressure{}
	for _, resource := range pressureResources {
		if p := keep(r, s, FigurePressure+resource, r.pressure[resource], proc.ParsePressure); p != nil {
			s.Pressure[resource] = p
		}
	}
	r.readDisks(s)
	if interfaces, err := parsed(r.interfaces, proc.ParseInterfaces); err != nil {
		s.Absent[FigureInterfaces] = r.fs.ReasonOf(err)
	} else {
		s.Interfaces = interfaces
	}
	r.readLimits(s)
	s.CPUs = r.countCPUs(s)
	s.Hostname, _ = r.fs.Hostname()
	s.Release, _ = r.fs.KernelRelease()
}

func (r *systemReader) readDisks(s *System) {
	disks, err := parsed(r.disks, proc.ParseDisks)
	if err != nil {
		s.Absent[FigureDisks] = r.fs.ReasonOf(err)
		return
	}
	for i := range disks {
		r.fs.TellPartition(&disks[i])
	}
	s.Disks = disks
}

func (r *systemReader) readLimits(s *System) {
	limits, err := r.hierarchies.Self()
	if err != nil {
		s.Absent[FigureLimits] = r.fs.ReasonOf(err)
		return
	}
	s.Limits = &limits
}

// countCPUs is the number of logical CPUs that are online: by the lines of
// proc/stat, or by sysfs where those are missing.
func (r *systemReader) countCPUs(s *System) int {
	if s.Kernel != nil && len(s.Kernel.CPUs) > 0 {
		return len(s.Kernel.CPUs)
	}
	if n, err := r.fs.OnlineCPUs(); err == nil {
		return n
	}
	if r.fs.Live() && r.fs.Root() == "/" {
		return runtime.NumCPU() // what we may run on, when no file tells
	}
	return 0
}

// parsed reads a kept file and parses it.
func parsed[T any](f *proc.KeptFile, parse func([]byte) (T, error)) (T, error) {
	data, err := f.Read()
	if err != nil {
		var zero T
		return zero, err
	}
	return parse(data)
}

// keep is parsed for a figure that is absent with its reason when it fails.
func keep[T any](r *systemReader, s *System, figure string, f *proc.KeptFile, parse func([]byte) (*T, error)) *T {
	value, err := parsed(f, parse)
	if err != nil {
		s.Absent[figure] = r.fs.ReasonOf(err)
		return nil
	}
	return value
}

// startFilesystems asks every filesystem for its usage while the process table
// is read; a mount that hangs is absent.
func (r *systemReader) startFilesystems(ctx context.Context) func(*System) []proc.Usage {
	mounts, err := r.fs.Mounts()
	if err != nil {
		return func(s *System) []proc.Usage {
			s.Absent[FigureFilesystems] = r.fs.ReasonOf(err)
			return nil
		}
	}
	done := make(chan []proc.Usage, 1)
	go func() { done <- r.filesystems.Usage(ctx, mounts) }()
	return func(*System) []proc.Usage { return <-done }
}
