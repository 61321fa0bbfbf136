package cli

// This file tells the version: stamped by the linker, or else by the module's
// build information.

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is stamped with -ldflags "-X topside/internal/cli.version=…".
var version string

// Version is the program's version, "devel" and the commit when it was not
// stamped.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, modified := "", ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision" && len(setting.Value) >= 12:
			revision = "-" + setting.Value[:12]
		case setting.Key == "vcs.modified" && setting.Value == "true":
			modified = "+dirty"
		}
	}
	return "devel" + revision + modified
}

func newVersionCommand(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(s.Out, "topside %s (%s, %s/%s)\n", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
