package cli

// This file examines what sessions can compute with: the engines, and what makes
// programs of them.

import (
	"context"
	"errors"
	"time"

	"topside/internal/compute/engine"
	"topside/internal/compute/engine/javascript"
	"topside/internal/compute/engine/ocaml"
	"topside/internal/compute/promote"
)

// driverTime bounds the compilation of one driver.
const driverTime = time.Minute

// sessions says of each engine whether it works here. OCaml's driver is compiled
// when the cache does not have it: only that tells whether it can be.
func (d *diagnosis) sessions(ctx context.Context) {
	for _, l := range []engine.Language{&ocaml.Language{}, &ocaml.Language{Native: true}} {
		d.engine(ctx, "engine "+l.Name(), l)
	}
	js := &javascript.Language{}
	if info, err := js.Probe(ctx); err != nil {
		d.add("engine javascript", limited, clean(err.Error()), "")
	} else {
		d.add("engine javascript", works, info.Version+", part of topside", "")
	}
	found, err := promote.Probe(ctx)
	if err != nil {
		d.add("compile_to_binary", missing, "neither dune nor ocamlfind is on PATH", promote.Install)
		return
	}
	d.add("compile_to_binary", works, clean(found), "")
}

func (d *diagnosis) engine(ctx context.Context, name string, l engine.Language) {
	ctx, cancel := context.WithTimeout(ctx, driverTime)
	defer cancel()
	info, err := l.Probe(ctx)
	if err == nil {
		_, err = l.Command(ctx)
	}
	var lacks *engine.Unavailable
	switch {
	case errors.As(err, &lacks):
		d.add(name, missing, clean(lacks.Reason), lacks.Install+"; until then sessions are in JavaScript")
	case err != nil:
		d.add(name, missing, "its session driver is not there: "+clean(err.Error()), "")
	case info.Note != "":
		d.add(name, limited, clean(info.Version+" at "+info.Path+": "+info.Note), "")
	default:
		d.add(name, works, clean(info.Version+" at "+info.Path+"; its session driver is compiled"), "")
	}
}
