package proc

// DescriptorCount returns how many descriptors a process has open: the size of
// the directory proc/PID/fd where the kernel keeps it (6.2 and later), else
// the number of its entries, which needs the right to trace the process.
func (f FS) DescriptorCount(pid int32) (int, error) {
	name := ofPID(pid, "fd")
	if n := f.countOfSize(name); n > 0 {
		return n, nil
	}
	dir, err := f.openDir(name)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0, err
	}
	if len(names) == 0 {
		if folder, ok := f.headless(pid); ok {
			entries, err := f.ReadDir(folder + "/fd")
			return len(entries), err
		}
	}
	return len(names), nil
}
