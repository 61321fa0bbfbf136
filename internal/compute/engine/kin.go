package engine

import (
	"crypto/rand"
	"fmt"
	"sync/atomic"
)

// markName is a variable in the environment of every process of a session: it finds those that left their group and
// their parents.
const markName = "TOPSIDE_SESSION"

// serverMark begins the marks of all sessions of this process.
var serverMark = rand.Text()

var markCount atomic.Uint64

// kin are all processes that descend from one child, wherever they went: those that left its process group
// (setsid) and those whose parents have ended (daemons). Where a control group can be made, it holds them and bounds
// their number. Elsewhere they are known by the mark in their environment and by their parents; a process that left
// all three (group, environment and parents) is not found then.
type kin struct {
	mark string
	cell *cell // nil where none can be made
}

func newKin(processes int64) *kin {
	return &kin{mark: fmt.Sprintf("%s.%d", serverMark, markCount.Add(1)), cell: newCell(processes)}
}

func (k *kin) variable() string { return markName + "=" + k.mark }
