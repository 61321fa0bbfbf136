package cli

// This file asks the kernel what this process may do.

import (
	"os"

	"golang.org/x/sys/unix"
)

func ownRights() rights {
	r := rights{known: true, uid: os.Geteuid()}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) == nil {
		r.capabilities = uint64(data[0].Effective) | uint64(data[1].Effective)<<32
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		r.openFiles, r.openFilesHard = limit.Cur, limit.Max
	}
	return r
}
