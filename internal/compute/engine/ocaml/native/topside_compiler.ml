(* What the native session needs of the compiler's library and what has another form in other releases. *)

open Types

let desc ty = (Btype.repr ty).desc
let more_general env scheme ty = Ctype.is_moregeneral env false scheme ty
let longident = Longident.parse [@@ocaml.warning "-3"]
let abstract () = Ctype.newty (Tconstr (Path.Pident (Ident.create_local "abstract"), [], ref Mnil))
let arrow a b = Ctype.newty (Tarrow (Asttypes.Nolabel, a, b, Cok))
let constructor_of_tag = Datarepr.find_constr_by_tag

(* The present and possible tags of a polymorphic variant with the types of their arguments. *)
let row_fields row =
  let row = Btype.row_repr row in
  List.filter_map
    (fun (label, field) ->
      match Btype.row_field_repr field with
      | Rpresent arg -> Some (label, arg)
      | Reither (_, arg :: _, _, _) -> Some (label, Some arg)
      | Reither (_, [], _, _) -> Some (label, None)
      | Rabsent -> None)
    row.row_fields

(* type_phrase gives the typed phrase, its signature and the environment after it. *)
let type_phrase env phrase =
  let typed, signature, names, next = Typemod.type_toplevel_phrase env phrase in
  (typed, Typemod.Signature_names.simplify next names signature, next)

let check_signature env signature = ignore (Includemod.signatures ~mark:Includemod.Mark_positive env signature signature)

(* The directories that Clflags names, compiler's first. *)
let init_path () = Compmisc.init_path ()
let add_directory dir = Load_path.prepend_dir (Load_path.Dir.create dir)

let same a b = Btype.repr a == Btype.repr b
