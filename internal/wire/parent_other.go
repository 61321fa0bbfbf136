//go:build !linux

package wire

import "context"

// waitForParent reports whether the parent ended before ctx did.
func waitForParent(ctx context.Context, parent int) bool { return pollParent(ctx, parent) }
