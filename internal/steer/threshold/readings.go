package threshold

// This file makes readings of one observation of the machine.

import (
	"strconv"
	"strings"

	"topside/internal/see/model"
	"topside/internal/see/proc"
)

// ReadingsOf makes the readings that an observation holds, and reads from fs
// what it does not: the kernel's table of open files and the temperatures.
// What is missing is an unknown reading.
func ReadingsOf(o *model.Observation, fs proc.FS) []Reading {
	s := &o.System
	readings := []Reading{
		{Metric: CPU, Value: s.Busy.Value, Known: s.Busy.Known},
		memory(s.Memory),
		swap(s.Memory),
		pressure(PressureCPU, s.Pressure["cpu"]),
		pressure(PressureMemory, s.Pressure["memory"]),
		pressure(PressureIO, s.Pressure["io"]),
		descriptors(fs),
		temperature(fs),
	}
	disk, inodes := filesystems(s.Filesystems)
	return append(readings, disk, inodes)
}

func memory(m *proc.Memory) Reading {
	r := Reading{Metric: Memory}
	if m == nil || m.Total == nil || m.Available == nil || *m.Total == 0 {
		return r
	}
	used := float64(*m.Total) - float64(min(*m.Available, *m.Total))
	r.Value, r.Known = used/float64(*m.Total)*100, true
	return r
}

// swap is 0 on a machine without any: nothing of it can fill up.
func swap(m *proc.Memory) Reading {
	r := Reading{Metric: Swap}
	if m == nil || m.SwapTotal == nil {
		return r
	}
	used := m.SwapUsed()
	if used == nil {
		return r
	}
	r.Known = true
	if *m.SwapTotal > 0 {
		r.Value = float64(*used) / float64(*m.SwapTotal) * 100
	}
	return r
}

func pressure(m Metric, p *proc.Pressure) Reading {
	r := Reading{Metric: m}
	if p == nil || p.Some == nil {
		return r
	}
	r.Value, r.Known = p.Some.Avg10, true
	return r
}

// filesystems finds the fullest by bytes and by inodes. Space that is kept for
// root counts as neither used nor free, as df has it. Read-only images are
// always full and left out.
func filesystems(all []proc.Usage) (disk, inodes Reading) {
	disk, inodes = Reading{Metric: Disk}, Reading{Metric: Inodes}
	for i := range all {
		u := &all[i]
		if u.Reason != "" || imageTypes[u.Mount.Type] {
			continue
		}
		if share, ok := u.Full(); ok && (!disk.Known || share > disk.Value) {
			disk.Value, disk.Known, disk.Subject = share, true, u.Mount.Point
		}
		if share, ok := u.InodesFull(); ok && (!inodes.Known || share > inodes.Value) {
			inodes.Value, inodes.Known, inodes.Subject = share, true, u.Mount.Point
		}
	}
	return disk, inodes
}

var imageTypes = map[string]bool{"squashfs": true, "iso9660": true, "erofs": true, "cramfs": true, "udf": true}

// descriptors is the kernel's count of open files against its limit
// (proc/sys/fs/file-nr).
func descriptors(fs proc.FS) Reading {
	r := Reading{Metric: Descriptors}
	data, err := fs.Read("proc/sys/fs/file-nr")
	if err != nil {
		return r
	}
	words := strings.Fields(string(data))
	if len(words) != 3 {
		return r
	}
	open, err := strconv.ParseUint(words[0], 10, 64)
	limit, err2 := strconv.ParseUint(words[2], 10, 64)
	if err != nil || err2 != nil || limit == 0 {
		return r
	}
	r.Value, r.Known = float64(open)/float64(limit)*100, true
	return r
}

// temperature is that of the hottest thermal zone
// (sys/class/thermal/thermal_zoneN/temp, in thousandths of a degree). Sensors
// that report nonsense, as unconnected ones do, are left out.
func temperature(fs proc.FS) Reading {
	r := Reading{Metric: Temperature}
	const folder = "sys/class/thermal"
	entries, err := fs.ReadDir(folder)
	if err != nil {
		return r
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "thermal_zone") {
			continue
		}
		zone := folder + "/" + e.Name()
		data, err := fs.Read(zone + "/temp")
		if err != nil {
			continue
		}
		milli, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		degrees := float64(milli) / 1000
		if err != nil || degrees <= -40 || degrees > 150 || r.Known && degrees <= r.Value {
			continue
		}
		r.Value, r.Known, r.Subject = degrees, true, e.Name()
		if kind, err := fs.Read(zone + "/type"); err == nil {
			r.Subject = strings.TrimSpace(string(kind))
		}
	}
	return r
}
