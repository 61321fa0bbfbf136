//go:build !unix

package transfer

import (
	"errors"
	"os"
)

const noFollow = 0

// NonBlocking has no meaning here.
const NonBlocking = 0

var errQuota = errors.New("quota")

func lockFile(*os.File) error { return nil }

func reserve(*os.File, int64) error { return nil }

func sizeless(*os.File) bool { return false }
