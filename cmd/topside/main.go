// Command topside gives an AI agent a machine to see, over the Model Context
// Protocol, and a person the same through its commands. See package cli.
package main

import (
	"os"

	"topside/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args, cli.Standard())) }
