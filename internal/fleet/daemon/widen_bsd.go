//go:build unix && !linux

package daemon

import "os"

func widen(*os.File) {}
