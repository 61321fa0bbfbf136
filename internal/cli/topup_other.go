//go:build !unix

package cli

import "os"

func dieOf(os.Signal) int { return statusFailed }
