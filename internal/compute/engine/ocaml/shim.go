package ocaml

import (
	"fmt"
	"strconv"
	"strings"
)

// release is the part of a compiler's version that its library's interface depends on.
type release struct{ major, minor int }

// parseRelease reads "4.13.1", "5.3.0~alpha1" or "4.14.1+flambda".
func parseRelease(version string) (release, error) {
	major, rest, ok := strings.Cut(version, ".")
	if !ok {
		return release{}, fmt.Errorf("not an OCaml version: %q", version)
	}
	digits := rest
	if i := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		digits = rest[:i]
	}
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(digits)
	if errA != nil || errB != nil {
		return release{}, fmt.Errorf("not an OCaml version: %q", version)
	}
	return release{a, b}, nil
}

func (r release) before(major, minor int) bool {
	return r.major < major || r.major == major && r.minor < minor
}

// oldest is the first release whose library has what the driver uses.
var oldest = release{4, 8}

// shim writes module Shim for a release: what changed in the compiler's library and its folders.
//
//	init_path       took a boolean before 4.09
//	text            a message of a report: a printer for Format, for Format_doc from 5.3
//	print_out_type  prints on Format_doc from 5.3
//	find_value      Env.find_value_by_name from 4.10
//	is_directive    Toploop.get_directive from 4.13, a table before
//	fold_values     Env.fold_values, which 4.11 has not: before 4.13 the summary of the environment, without
//	                what was opened. All its constructors but the first begin with what is left.
//	linked          the folders of the libraries in the driver: unix has its own from 5.0
func shim(r release) string {
	initPath := "Compmisc.init_path ()"
	if r.before(4, 9) {
		initPath = "Compmisc.init_path false"
	}
	text := `Format.asprintf "%t" p`
	printType := "!Toploop.print_out_type ppf t"
	if !r.before(5, 3) {
		text = `Format.asprintf "%a" Format_doc.Doc.format p`
		printType = "Format_doc.compat !Toploop.print_out_type ppf t"
	}
	find := "Env.find_value_by_name lid env"
	if r.before(4, 10) {
		find = "Env.lookup_value lid env"
	}
	directive := "Toploop.get_directive name <> None"
	fold := "Env.fold_values f None env acc"
	if r.before(4, 13) {
		fold = `
  let rec each summary acc =
    match summary with
    | Env.Env_empty -> acc
    | Env.Env_value (rest, id, vd) -> each rest (f (Ident.name id) (Path.Pident id) vd acc)
    | other -> each (Obj.obj (Obj.field (Obj.repr other) 0)) acc
  in
  each (Env.summary env) acc`
		directive = "Hashtbl.mem Toploop.directive_table name"
	}
	linked := "[]"
	if !r.before(5, 0) {
		linked = `["+unix"]`
	}
	return fmt.Sprintf(`let init_path () = %s
let text p = %s
let print_out_type ppf t = %s
let find_value lid env = %s
let is_directive name = %s
let fold_values f env acc = %s
let linked = %s
`, initPath, text, printType, find, directive, fold, linked)
}
