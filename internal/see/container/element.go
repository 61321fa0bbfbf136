package container

import "strings"

// This file knows how each runtime spells a container in one element of a
// cgroup path.

// scopePrefixes are the runtimes that write PREFIX-ID, with or without .scope.
var scopePrefixes = []struct {
	prefix  string
	runtime Runtime
}{
	{"docker-", Docker},
	{"cri-containerd-", Containerd},
	{"crio-", CRIO},
	{"libpod-payload-", Podman},
	{"libpod-", Podman},
	{"nerdctl-", Containerd},
	{"containerd-", Containerd},
	{"k8s.io-", Containerd},
	{"moby-", Docker},
	{"balena-", Docker},
	{"podman-", Podman},
}

// containerOf recognises the container that element names, given the two
// elements before it, the rest of the path, how deep it lies and whether it is
// below a pod. id is empty when it names none.
func containerOf(element, previous, beforePrevious, rest string, depth int, inPod bool) (runtime Runtime, id string) {
	if runtime, id = markedContainer(element, rest); id != "" {
		return runtime, id
	}
	name := strings.TrimSuffix(element, ".scope")
	if isHex(name, 64) {
		return bareRuntime(previous, depth, inPod), name
	}
	return childContainer(element, name, previous, beforePrevious, depth)
}

// markedContainer recognises the elements that name their runtime themselves.
func markedContainer(element, rest string) (Runtime, string) {
	switch {
	case strings.HasSuffix(element, ".mount"):
		return "", "" // a container's file system, not the container
	case strings.HasPrefix(element, "systemd-nspawn@"):
		return nspawnUnit(element, rest)
	case strings.HasSuffix(element, ".service"):
		return "", ""
	case strings.HasPrefix(element, "machine-") && strings.HasSuffix(element, ".scope"):
		return machineScope(element, rest)
	case strings.HasPrefix(element, "lxc.payload."):
		return LXC, element[len("lxc.payload."):]
	case strings.HasSuffix(element, ".libvirt-lxc"):
		return LXC, strings.TrimSuffix(element, ".libvirt-lxc")
	case strings.HasSuffix(element, ".libvirt-qemu"):
		return QEMU, libvirtName(strings.TrimSuffix(element, ".libvirt-qemu"), "qemu-")
	case yarnContainer(element):
		return YARN, element
	}
	name := strings.TrimSuffix(element, ".scope")
	for _, known := range scopePrefixes {
		if id, ok := strings.CutPrefix(name, known.prefix); ok && isHex(id, 64) {
			return known.runtime, id
		}
	}
	return colonForm(element)
}

// colonForm reads SLICE:PREFIX:ID, which a runtime without the systemd driver
// writes when it is given a slice as the parent.
func colonForm(element string) (Runtime, string) {
	last := strings.LastIndexByte(element, ':')
	if last < 0 {
		return "", ""
	}
	first := strings.LastIndexByte(element[:last], ':')
	if first < 0 || !strings.HasSuffix(element[:first], ".slice") {
		return "", ""
	}
	prefix, id := element[first+1:last]+"-", element[last+1:]
	for _, known := range scopePrefixes {
		if known.prefix == prefix && (isHex(id, 64) || isBuildID(id)) {
			return known.runtime, id
		}
	}
	return "", ""
}

// bareRuntime names the runtime of an element that is nothing but an id.
func bareRuntime(previous string, depth int, inPod bool) Runtime {
	switch {
	case previous == "docker":
		return Docker
	case previous == "lxc" || previous == "lxc.payload":
		return LXC
	case previous == "garden":
		return Garden
	case previous == "mesos":
		return Mesos
	case depth == 1 && (previous == "default" || previous == "k8s.io"):
		return Containerd // its namespace
	case strings.Contains(previous, "-pod") && !strings.HasPrefix(previous, "kubepods"):
		return Docker // Kubernetes 1.5: one slice per class, Docker the only engine
	case inPod:
		return Kubernetes
	}
	return Docker
}

// childContainer recognises the names that only their parent makes a container.
func childContainer(element, name, previous, beforePrevious string, depth int) (Runtime, string) {
	switch previous {
	case "lxc", "lxc.payload":
		if beforePrevious == "libvirt" || !strings.HasPrefix(element, "lxc.") {
			return LXC, element
		}
	case "qemu", "qemu.slice":
		if beforePrevious == "libvirt" || previous == "qemu.slice" {
			return QEMU, name
		}
	case "garden":
		return Garden, element
	case "mesos":
		if isUUID(element, '-') {
			return Mesos, element
		}
	case "nomad", "nomad.slice", "share.slice", "reserve.slice":
		if len(name) > 37 && isUUID(name[:36], '-') && name[36] == '.' {
			return Nomad, name
		}
	case "buildkit":
		if isBuildID(element) {
			return Docker, element
		}
	case "default", "k8s.io":
		if depth == 1 && !strings.HasSuffix(element, ".slice") && !strings.HasSuffix(element, ".scope") {
			return Containerd, element
		}
	}
	if beforePrevious == "ecs" && len(name) > 33 && isHex(name[:32], 32) && name[32] == '-' && strings.HasPrefix(name, previous) {
		return Containerd, name // Fargate: the task's id and a number
	}
	return "", ""
}

// nspawnUnit reads systemd-nspawn@NAME.service. Its supervisor child is the
// nspawn process on the host, not the machine.
func nspawnUnit(element, rest string) (Runtime, string) {
	name, ok := strings.CutSuffix(element[len("systemd-nspawn@"):], ".service")
	if !ok || firstIs(rest, "supervisor") {
		return "", ""
	}
	return Nspawn, unescapeUnit(name)
}

// machineScope reads machine-NAME.scope, which systemd-machined makes for
// nspawn, and for libvirt with its driver and number in front of the name.
func machineScope(element, rest string) (Runtime, string) {
	name := unescapeUnit(element[len("machine-") : len(element)-len(".scope")])
	if rest, ok := strings.CutPrefix(name, "qemu-"); ok {
		return QEMU, libvirtName("qemu-"+rest, "qemu-")
	}
	if domain := libvirtName(name, "lxc-"); domain != name {
		return LXC, domain
	}
	if firstIs(rest, "supervisor") {
		return "", ""
	}
	return Nspawn, name
}

// libvirtName takes the driver and the domain's number off qemu-3-web.
func libvirtName(name, driver string) string {
	rest, ok := strings.CutPrefix(name, driver)
	if !ok {
		return name
	}
	number, domain, ok := strings.Cut(rest, "-")
	if !ok || domain == "" || !isDecimal(number) {
		return name
	}
	return domain
}

func firstIs(path, name string) bool {
	element, _ := nextElement(path, 0)
	return element == name
}

// yarnContainer recognises container_[eEPOCH_]TIMESTAMP_APP_ATTEMPT_NUMBER.
func yarnContainer(element string) bool {
	rest, ok := strings.CutPrefix(element, "container_")
	if !ok {
		return false
	}
	rest = strings.TrimPrefix(rest, "e")
	underscores := 0
	for i := 0; i < len(rest); i++ {
		switch {
		case rest[i] == '_':
			underscores++
		case rest[i] < '0' || rest[i] > '9':
			return false
		}
	}
	return underscores >= 3
}

// podUID finds the uid in pod<uid> and in …-pod<uid>.slice. The uid is a UUID
// with '-' or '_', or the 32 digits of a static pod's hash; it is returned with
// '-'.
func podUID(element string) string {
	name := element
	if colon := strings.IndexByte(name, ':'); colon >= 0 {
		name = name[:colon]
	}
	name = strings.TrimSuffix(name, ".slice")
	for from := 0; ; {
		at := strings.Index(name[from:], "pod")
		if at < 0 {
			return ""
		}
		at += from
		uid := name[at+len("pod"):]
		if at == 0 || name[at-1] == '-' {
			if isUUID(uid, '-') || isHex(uid, 32) {
				return uid
			}
			if isUUID(uid, '_') {
				return strings.ReplaceAll(uid, "_", "-")
			}
		}
		from = at + len("pod")
	}
}

func isHex(text string, length int) bool {
	if len(text) != length {
		return false
	}
	for i := 0; i < len(text); i++ {
		if hexDigit(text[i]) < 0 {
			return false
		}
	}
	return true
}

func isDecimal(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

func isUUID(text string, separator byte) bool {
	if len(text) != 36 {
		return false
	}
	for i := 0; i < len(text); i++ {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if text[i] != separator {
				return false
			}
		} else if hexDigit(text[i]) < 0 {
			return false
		}
	}
	return true
}

// isBuildID recognises a BuildKit id: 25 characters of base 36.
func isBuildID(text string) bool {
	if len(text) != 25 {
		return false
	}
	for i := 0; i < len(text); i++ {
		if c := text[i]; !('0' <= c && c <= '9' || 'a' <= c && c <= 'z') {
			return false
		}
	}
	return true
}
