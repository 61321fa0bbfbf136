package contract

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // panics on purpose are logged
	goleak.VerifyTestMain(m)
}
