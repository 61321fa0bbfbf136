package see

// This file holds a snapshot as its readers see it, and the details of one
// resource that are read when they are first asked for.

import (
	"context"
	"sync"
	"time"

	"topside/internal/see/model"
	"topside/internal/see/proc"
	"topside/internal/see/resource"
)

// A Snapshot is one immutable observation under an id.
type Snapshot struct {
	id      string
	content *content
	fs      proc.FS
}

// ID is the snapshot's opaque id.
func (s *Snapshot) ID() string { return s.id }

// Observation is the figures of the machine.
func (s *Snapshot) Observation() *model.Observation { return s.content.observation }

// Catalogue is the resources of the machine.
func (s *Snapshot) Catalogue() *resource.Catalogue { return s.content.catalogue }

// Resource returns the resource with that id; its error has the code
// UnknownResource.
func (s *Snapshot) Resource(id string) (*resource.Resource, error) {
	r, ok := s.content.catalogue.Find(id)
	if !ok {
		return nil, failure(UnknownResource,
			"use an id that list_resources or list_children returned together with this snapshot_id",
			"this snapshot has no resource with that id")
	}
	return r, nil
}

// Details are what is known of one process beyond its row. They are read when
// first asked for and kept from then on, since a snapshot never changes; what
// the process no longer gives is absent with the reason.
type Details struct {
	// ReadAt is when they were read, later than the snapshot's own time.
	ReadAt time.Time
	// Descriptors is the number of open files; DescriptorLimit the soft limit.
	Descriptors *int
	Limits      map[string]proc.Limit
	Status      *proc.Status
	OOMScore    *int
	Absent      map[string]proc.Reason
}

type detailCache struct {
	mu    sync.Mutex
	known map[int32]*Details
}

// Details returns the details of a process; nil for other kinds.
func (s *Snapshot) Details(ctx context.Context, r *resource.Resource) *Details {
	if r.Proc == nil || ctx.Err() != nil {
		return nil
	}
	cache := &s.content.details
	cache.mu.Lock()
	defer cache.mu.Unlock()
	if d, ok := cache.known[r.Proc.PID]; ok {
		return d
	}
	d := s.read(r.Proc)
	if cache.known == nil {
		cache.known = map[int32]*Details{}
	}
	cache.known[r.Proc.PID] = d
	return d
}

// read reads the details of the process that the snapshot saw. If its PID
// belongs to another process by now, before or after the reading, all of them
// are absent: they would be the other's.
func (s *Snapshot) read(p *model.Process) *Details {
	d := &Details{ReadAt: time.Now(), Absent: map[string]proc.Reason{}}
	if !s.same(p) {
		return gone(d)
	}
	if n, err := s.fs.DescriptorCount(p.PID); err != nil {
		d.Absent["descriptors"] = s.fs.ReasonOf(err)
	} else {
		d.Descriptors = &n
	}
	if limits, err := s.fs.Limits(p.PID); err != nil {
		d.Absent["limits"] = s.fs.ReasonOf(err)
	} else {
		d.Limits = limits
	}
	if status, err := s.fs.Status(p.PID); err != nil {
		d.Absent["status"] = s.fs.ReasonOf(err)
	} else {
		d.Status = status
	}
	if score, err := s.fs.OOMScore(p.PID); err != nil {
		d.Absent["oom_score"] = s.fs.ReasonOf(err)
	} else {
		d.OOMScore = &score
	}
	if !s.same(p) {
		return gone(d)
	}
	return d
}

func gone(d *Details) *Details {
	absent := map[string]proc.Reason{}
	for _, what := range []string{"descriptors", "limits", "status", "oom_score"} {
		absent[what] = proc.Vanished
	}
	return &Details{ReadAt: d.ReadAt, Absent: absent}
}

// same reports whether the PID is still that of the process in the snapshot.
func (s *Snapshot) same(p *model.Process) bool {
	stat, err := s.fs.Stat(p.PID)
	return err == nil && stat.StartTicks == p.StartTicks
}
