//go:build !linux

package cli

import "context"

func stayLight(context.Context) {}
