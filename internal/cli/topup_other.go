//go:build !unix

package cli

import (
	"io/fs"
	"os"
)

func dieOf(os.Signal) int { return statusFailed }

func ours(fs.FileInfo) bool { return false }
