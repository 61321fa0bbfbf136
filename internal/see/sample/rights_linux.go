package sample

import "golang.org/x/sys/unix"

// openFileLimit is how many files this process may have open.
func openFileLimit() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(limit.Cur, 1<<20))
}

// privileged reports whether hidepid hides nothing from us.
func privileged() bool { return unix.Geteuid() == 0 }
