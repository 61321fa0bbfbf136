//go:build unix

package policy

import (
	"fmt"
	"os"
	"syscall"
)

// guarded reports whether only the user, or root, can change a policy: a rule that
// everybody can rewrite forbids nothing. A group of the user's own may write.
func guarded(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	mode := info.Mode().Perm()
	switch {
	case owner.Uid != 0 && int(owner.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to user %d: it must be root's or your own", owner.Uid)
	case mode&0o002 != 0:
		return fmt.Errorf("everybody may write to it (mode %04o): chmod o-w", mode)
	case mode&0o020 != 0 && int(owner.Gid) != os.Getegid():
		return fmt.Errorf("the group %d may write to it (mode %04o): chmod g-w", owner.Gid, mode)
	}
	return nil
}
