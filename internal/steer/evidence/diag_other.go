//go:build !linux

package evidence

import (
	"errors"

	"topside/internal/steer/alert"
)

// dump is of Linux: elsewhere there is no such list.
func dump(bool) ([]alert.Socket, error) { return nil, errors.ErrUnsupported }
