package cli

// This file makes the doctor's findings. Each examination looks at one part of
// an observation.

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"topside/internal/see/cgroup"
	"topside/internal/see/container"
	"topside/internal/see/proc"
	"topside/internal/see/sample"
)

// examine makes the report on one root.
func examine(ctx context.Context, root string) *diagnosis {
	d := newDiagnosis(root)
	fs, err := proc.NewFS(root)
	if err != nil {
		remedy := "give --root a folder that holds proc/, or mount procfs there"
		if runtime.GOOS != "linux" {
			remedy = "only Linux can be observed yet; --root reads a tree that was recorded on one"
		}
		d.add("root", failed, clean(err.Error()), remedy)
		return d
	}
	d.Live = fs.Live()
	if d.Live {
		d.add("root", works, "a running kernel's files at "+clean(fs.Root()), "")
	} else {
		d.add("root", limited, "a recorded tree at "+clean(fs.Root())+": one observation, no rates",
			"rates need a live procfs: mount the machine's /proc below the root")
	}
	rights := ownRights()
	d.rights(rights)
	d.scope(fs, rights)
	d.processes(ctx, fs, rights)
	d.kernel(fs)
	d.pressure(fs)
	d.cgroups(fs)
	d.ownLimits(fs)
	d.engines(ctx, fs)
	d.zfs(fs)
	d.bpf(fs, rights)
	d.openFiles(rights)
	if root == "/" {
		d.sessions(ctx)
	}
	return d
}

// rights are what this process may do.
type rights struct {
	known         bool
	uid           int
	capabilities  uint64
	openFiles     uint64 // the soft limit; 0 when unknown
	openFilesHard uint64
}

// The capabilities that observation can use (capabilities(7)).
const (
	capDACReadSearch = 2
	capSysPtrace     = 19
	capSysAdmin      = 21
	capPerfmon       = 38
	capBPF           = 39
)

func (r rights) has(capability int) bool { return r.capabilities&(1<<capability) != 0 }

// names lists the capabilities among those that observation can use.
func (r rights) names() []string {
	var held []string
	for _, c := range []struct {
		bit  int
		name string
	}{
		{capSysPtrace, "CAP_SYS_PTRACE"}, {capDACReadSearch, "CAP_DAC_READ_SEARCH"}, {capPerfmon, "CAP_PERFMON"},
		{capBPF, "CAP_BPF"}, {capSysAdmin, "CAP_SYS_ADMIN"},
	} {
		if r.has(c.bit) {
			held = append(held, c.name)
		}
	}
	return held
}

func (d *diagnosis) rights(r rights) {
	if !r.known {
		d.add("rights", absent, "this platform has none that matter to a recorded tree", "")
		return
	}
	who := fmt.Sprintf("user %d", r.uid)
	if r.uid == 0 {
		who = "root"
	}
	held := r.names()
	with := "without any capability that helps"
	if len(held) > 0 {
		with = "with " + strings.Join(held, ", ")
	}
	if r.has(capSysPtrace) && r.has(capDACReadSearch) {
		d.add("rights", works, who+" "+with+": every process can be read in full", "")
		return
	}
	d.add("rights", limited, who+" "+with+": CPU and memory of all processes; I/O, executable, working directory and descriptors of own ones only",
		"run as root, or give the binary the rights: setcap cap_sys_ptrace,cap_dac_read_search+ep topside")
}

// scope says whose processes the table shows.
func (d *diagnosis) scope(fs proc.FS, r rights) {
	mode, err := fs.HidePID()
	hides := err == nil && mode != "" && mode != "off" && r.uid != 0
	switch {
	case !fs.Live():
	case fs.WholeMachine():
		d.add("scope", works, "the table is the whole machine's", "")
	case hides:
		d.add("scope", limited, "whether the table is the whole machine's cannot be told, since hidepid hides the kernel's own tasks too", "")
	default:
		d.add("scope", limited, "the table is of a PID namespace: a container's (or a WSL distribution's) own processes, not the machine's",
			"share the host's PID namespace (docker run --pid=host), or mount its root and give --root")
	}
	switch {
	case err != nil:
		d.add("hidepid", absent, "not known: "+string(fs.ReasonOf(err)), "")
	case hides:
		d.add("hidepid", limited, mode+": other users' processes are hidden and missing from every list and sum",
			"run as root, or as a member of the group in the mount's gid= option")
	case mode == "" || mode == "off":
		d.add("hidepid", works, "off: other users' processes are visible", "")
	default:
		d.add("hidepid", works, mode+", which does not hide anything from root", "")
	}
}

// processes takes the table twice: the second time is what a running server
// pays.
func (d *diagnosis) processes(ctx context.Context, fs proc.FS, r rights) {
	sampler := sample.NewSampler(fs, sample.Options{})
	defer sampler.Close()
	began := time.Now()
	pass, err := sampler.Take(ctx)
	first := time.Since(began)
	if err == nil {
		began = time.Now()
		pass, err = sampler.Take(ctx)
	}
	next := time.Since(began)
	if err != nil {
		d.add("processes", failed, clean(err.Error()), "is procfs mounted at the root, and may this user read it?")
		return
	}
	n := len(pass.Processes)
	d.Observable = true
	d.Sample = &sampleTiming{n, milliseconds(first), milliseconds(next)}
	text := fmt.Sprintf("%d processes; the first sample took %.1f ms, the next %.1f ms", n, milliseconds(first), milliseconds(next))
	switch {
	case n == 0:
		d.Observable = pass.System.Kernel != nil
		d.add("processes", missing, "no process can be seen", "")
	case pass.Denied+pass.Malformed > 0:
		d.add("processes", limited, fmt.Sprintf("%s; %d could not be read and %d made no sense", text, pass.Denied, pass.Malformed), "")
	default:
		d.add("processes", works, text, "")
	}
	d.accounting(pass, r)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// accounting says of how many processes the I/O counters can be read.
func (d *diagnosis) accounting(pass *sample.Pass, r rights) {
	known, denied, other := 0, 0, proc.Reason("")
	for i := range pass.Processes {
		switch p := &pass.Processes[i]; {
		case p.IOKnown:
			known++
		case p.IOAbsent == proc.NoPermission:
			denied++
		case p.IOAbsent != "":
			other = p.IOAbsent
		}
	}
	switch {
	case known > 0 && denied == 0:
		d.add("process I/O", works, fmt.Sprintf("bytes read and written are known of %d processes", known), "")
	case denied > 0:
		text, remedy := fmt.Sprintf("bytes read and written are known of %d processes and denied of %d", known, denied), ""
		if r.has(capSysPtrace) {
			text += ", although this process has CAP_SYS_PTRACE: a security module or another user namespace protects them"
		} else {
			remedy = "run as root, or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
		}
		d.add("process I/O", limited, text, remedy)
	default:
		why := "no process gives them"
		if other != "" {
			why += ": " + string(other)
		}
		d.add("process I/O", missing, why, "")
	}
}

func (d *diagnosis) kernel(fs proc.FS) {
	release, err := fs.KernelRelease()
	if err != nil {
		d.add("kernel", absent, "release not known: "+string(fs.ReasonOf(err)), "")
	} else {
		d.add("kernel", works, clean(release), "")
	}
}

// pressure tells a kernel without PSI from one where it was switched off.
func (d *diagnosis) pressure(fs proc.FS) {
	var present []string
	var reason proc.Reason
	for _, name := range []string{"cpu", "memory", "io", "irq"} {
		if _, err := fs.Pressure(name); err == nil {
			present = append(present, name)
		} else if name != "irq" && reason == "" {
			reason = fs.ReasonOf(err)
		}
	}
	options, _ := fs.BootOptions() // without them, only the reason is less exact
	switch {
	case len(present) > 0 && reason == "":
		d.add("pressure (PSI)", works, strings.Join(present, ", "), "")
	case len(present) > 0:
		d.add("pressure (PSI)", limited, strings.Join(present, ", ")+"; the rest: "+string(reason), "")
	case slices.Contains(options, "psi=0"):
		d.add("pressure (PSI)", missing, "switched off by the boot option psi=0", "boot without it, or with psi=1")
	case fs.Live():
		d.add("pressure (PSI)", missing, string(reason), "a kernel from 4.20 on, built with CONFIG_PSI; where it is off by default, boot with psi=1")
	default:
		d.add("pressure (PSI)", absent, string(reason), "")
	}
}

func (d *diagnosis) cgroups(fs proc.FS) {
	hierarchies, err := cgroup.Discover(fs)
	if err != nil {
		d.add("control groups", missing, clean(err.Error()), "")
		return
	}
	version := hierarchies.Version()
	if version == "none" {
		d.add("control groups", missing, "none are mounted: containers and units cannot be told apart", "mount cgroup2, or the host's sys/ below the root")
		return
	}
	text := version
	controllers, err := fs.CgroupControllers()
	if err == nil {
		text += " with " + strings.Join(controllers, ", ")
	}
	if lack := lacking(controllers); err == nil && lack != "" {
		d.add("control groups", limited, text+"; no controller for "+lack, "")
		return
	}
	d.add("control groups", works, text, "")
}

// lacking names what there is no controller for; that of I/O has two names.
func lacking(controllers []string) string {
	var out []string
	for _, names := range [][]string{{"cpu"}, {"memory"}, {"io", "blkio"}} {
		if !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(controllers, name) }) {
			out = append(out, names[0])
		}
	}
	return strings.Join(out, " and ")
}

// ownLimits says what this process itself is held to.
func (d *diagnosis) ownLimits(fs proc.FS) {
	limits, err := cgroup.Self(fs)
	if err != nil {
		d.add("own limits", absent, "not known: "+string(fs.ReasonOf(err)), "")
		return
	}
	var held []string
	if l := limits.CPUQuotaCores; l != nil {
		held = append(held, fmt.Sprintf("%.2f cores", *l))
	}
	if l := limits.CPUSetCount; l != nil {
		held = append(held, fmt.Sprintf("a cpuset of %d", *l))
	}
	if l := limits.MemoryLimit; l != nil {
		held = append(held, size(float64(*l))+" of memory")
	}
	if l := limits.PIDsLimit; l != nil {
		held = append(held, fmt.Sprintf("%d tasks", *l))
	}
	text := "none"
	if len(held) > 0 {
		text = strings.Join(held, ", ")
	}
	d.add("own limits", works, fmt.Sprintf("%s (control group %s)", text, clean(limits.Path)), "")
}

func (d *diagnosis) engines(ctx context.Context, fs proc.FS) {
	engines := container.NewEngines(fs, container.EngineOptions{})
	defer engines.Close()
	for _, l := range engines.List(ctx) {
		where := clean(l.Socket)
		switch l.Status {
		case container.OK:
			d.add(l.Engine, works, fmt.Sprintf("%d containers, by %s", len(l.Containers), where), "")
		case container.Absent, container.Disabled:
			d.add(l.Engine, absent, clean(l.Reason), "")
		case container.Denied:
			d.add(l.Engine, limited, clean(l.Reason)+": containers are found, without names, images and labels",
				"run as root, or as a member of the group that owns "+where)
		default:
			d.add(l.Engine, limited, clean(l.Reason)+" at "+where+": containers are found, without names, images and labels",
				"is the daemon running and well?")
		}
	}
}

func (d *diagnosis) zfs(fs proc.FS) {
	arc, err := fs.ARC()
	if err != nil {
		d.add("ZFS", absent, "no ARC: "+string(fs.ReasonOf(err)), "")
		return
	}
	d.add("ZFS", works, fmt.Sprintf("ARC of %s", size(float64(arc.Size))), "")
}

// bpf says whether samples could be taken inside the kernel. Nothing does yet.
func (d *diagnosis) bpf(fs proc.FS, r rights) {
	release, err := fs.KernelRelease()
	if err != nil || !fs.Live() {
		d.add("BPF", absent, "only a live kernel can run it", "")
		return
	}
	var lack []string
	if !fs.HasBTF() {
		lack = append(lack, "the kernel has no BTF")
	}
	if !atLeast(release, 5, 8) {
		lack = append(lack, "the kernel is older than 5.8")
	}
	if !r.has(capSysAdmin) && !(r.has(capBPF) && r.has(capPerfmon)) {
		lack = append(lack, "CAP_BPF and CAP_PERFMON are needed")
	}
	switch {
	case len(lack) > 0:
		d.add("BPF", absent, "not possible: "+strings.Join(lack, ", ")+"; not used yet, so nothing is lost", "")
	case atLeast(release, 6, 7):
		d.add("BPF", works, "possible, with open-coded task iterators; not used yet", "")
	default:
		d.add("BPF", works, "possible, with task iterators; not used yet", "")
	}
}

// atLeast compares a kernel's release with a version.
func atLeast(release string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(release, "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a > major || a == major && b >= minor
}

func (d *diagnosis) openFiles(r rights) {
	if r.openFiles == 0 {
		return
	}
	d.add("open files", works, fmt.Sprintf("at most %d (hard limit %d); up to half of them, %d at most, are kept open on processes",
		r.openFiles, r.openFilesHard, sample.DefaultKeptDescriptors), "")
}
