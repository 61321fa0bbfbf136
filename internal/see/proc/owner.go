package proc

import "fmt"

// Owner returns the effective user id of a process: the owner of its directory
// on a live root, else its "Uid:" line.
func (f FS) Owner(pid int32) (uid uint32, err error) {
	if f.live {
		return f.ownerOfDirectory(pid)
	}
	status, err := f.Status(pid)
	if err != nil {
		return 0, err
	}
	if status.Uids == nil {
		return 0, fmt.Errorf("%s has no Uid line: %w", f.Path(ofPID(pid, "status")), ErrMalformed)
	}
	return status.Uids[1], nil
}
