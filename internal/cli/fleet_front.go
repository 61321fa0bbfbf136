package cli

// This file makes the fleet of a front end: which hosts there are, and how they are
// reached, from the registry and from the key "fleet" of the configuration.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"topside/internal/fleet"
	"topside/internal/fleet/host"
	"topside/internal/fleet/ssh"
	"topside/internal/steer"
	"topside/internal/tool"
)

// hostsVariable names the registry of hosts; "off" and the empty text keep it in
// memory.
const hostsVariable = "TOPSIDE_HOSTS_FILE"

// fleetOptions are the options of the fleet of this user: the registry
// ~/.topside/hosts.json, and what the configuration says of hosts. It connects to
// nothing.
func fleetOptions() (fleet.Options, error) {
	o := fleet.Options{Version: Version(), Surface: fleetSurface}
	folder := ""
	if home, err := os.UserHomeDir(); err == nil {
		folder = filepath.Join(home, ".topside")
		o.State = filepath.Join(folder, "state")
	}
	path, named := os.LookupEnv(hostsVariable)
	switch {
	case named && path == "off":
		path = ""
	case !named && folder != "":
		path = filepath.Join(folder, "hosts.json")
	}
	var err error
	if o.Registry, err = host.Open(path, host.Topside); err != nil {
		return o, err
	}
	settings, err := readFleetSettings()
	if err != nil {
		return o, err
	}
	return o, settings.apply(&o)
}

// newHosts makes the hosts of a server. A registry or a configuration that cannot be
// used leaves them out, and the server as it is: list_hosts tells, and the log. The
// caller parts with them.
func newHosts(logger *slog.Logger) *tool.Hosts {
	o := tool.HostsOptions{}
	var err error
	if o.Fleet, err = fleetOptions(); err != nil {
		logger.Warn("no hosts", "error", err)
		o.Fleet, o.Note = fleet.Options{Version: Version(), Surface: fleetSurface}, "there are no hosts: "+err.Error()
	}
	configuration, auditLog, err := steer.Paths()
	if err != nil {
		configuration, auditLog = "", ""
	}
	o.Elsewhere = steer.NewElsewhere(configuration, auditLog)
	hosts, err := tool.NewHosts(o)
	if err != nil { // a registry in memory does not fail
		logger.Warn("no hosts", "error", err)
		return nil
	}
	return hosts
}

// partWith ends every connection. An ssh that does not end in time dies with this
// process.
func partWith(hosts *tool.Hosts) {
	if hosts == nil {
		return
	}
	closed := make(chan error, 1)
	go func() { closed <- hosts.Close() }()
	select {
	case <-closed: // what was seen when is all that may be unwritten
	case <-time.After(partingPatience):
	}
}

// partingPatience is how long a server that is told to end waits for its connections.
const partingPatience = 700 * time.Millisecond

// fleetSettings are the key "fleet" of the configuration.
type fleetSettings struct {
	// SSHConfig is true where the hosts of ~/.ssh/config count as known, or the path
	// of another OpenSSH configuration, which ssh is then given too.
	SSHConfig json.RawMessage `json:"ssh_config"`
	// SSH is the program to run instead of ssh.
	SSH string `json:"ssh"`
	// Program is topside on hosts.
	Program string `json:"program"`
	// Allow are patterns of hosts that need not be registered.
	Allow []string `json:"allow"`
}

// maxConfiguration bounds the configuration, in bytes.
const maxConfiguration = 1 << 20

// readFleetSettings reads the configuration. None is no fault; one that does not say
// what it must is: it may hold what keeps hosts out.
func readFleetSettings() (fleetSettings, error) {
	var s fleetSettings
	path, _, err := steer.Paths()
	if err != nil {
		return s, nil // no home, no configuration
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() > maxConfiguration) {
		return s, nil // told by those who own the rest of it
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return s, nil
	}
	var file struct {
		Fleet json.RawMessage `json:"fleet"`
	}
	if json.Unmarshal(text, &file) != nil || len(file.Fleet) == 0 {
		return s, nil
	}
	d := json.NewDecoder(bytes.NewReader(file.Fleet))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("the key fleet of %s: %w; it takes ssh_config, ssh, program and allow", path, err)
	}
	return s, nil
}

func (s fleetSettings) apply(o *fleet.Options) error {
	o.Program, o.SSH.Program = s.Program, s.SSH
	for _, p := range s.Allow {
		if _, err := filepath.Match(p, ""); err != nil || p == "" {
			return fmt.Errorf("the key fleet.allow of the configuration: %q is no pattern of names", p)
		}
	}
	o.Allow = s.Allow
	var on bool
	var path string
	switch {
	case len(s.SSHConfig) == 0 || json.Unmarshal(s.SSHConfig, &on) == nil && !on:
	case on:
		home, err := os.UserHomeDir()
		if err != nil {
			return fmt.Errorf("the OpenSSH configuration: %w", err)
		}
		o.SSHConfig = filepath.Join(home, ".ssh", "config")
	case json.Unmarshal(s.SSHConfig, &path) == nil && path != "":
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			home, err := os.UserHomeDir()
			if err != nil {
				return fmt.Errorf("the OpenSSH configuration: %w", err)
			}
			path = filepath.Join(home, rest)
		}
		if !filepath.IsAbs(path) {
			return fmt.Errorf("the key fleet.ssh_config of the configuration: %s is not an absolute path", path)
		}
		if _, err := os.Stat(path); err != nil { // ssh fails with it, for every host
			return fmt.Errorf("the key fleet.ssh_config of the configuration: %w", err)
		}
		o.SSHConfig = path
		o.SSH = ssh.Client{Program: o.SSH.Program, Config: path}
	default:
		return errors.New("the key fleet.ssh_config of the configuration must be true, false or the path of an OpenSSH configuration")
	}
	return nil
}
