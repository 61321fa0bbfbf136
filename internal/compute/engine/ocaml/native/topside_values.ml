(* Values as the toplevel prints them: a value and its type become an Outcometree.out_value.

   This is for compilers that come without their native toplevel library. What is printed is what the bytecode
   toplevel prints, its limits (depth and number of nodes) included. What differs between compilers is in
   Topside_compiler. *)

open Types
open Outcometree
module C = Topside_compiler

type ('a, 'b) generic = Zero of 'b | Succ of ('a -> ('a, 'b) generic)

(* A printer for a type, or one for a type constructor that is given the printers of its arguments. *)
type printer =
  | Of_type of type_expr * (Obj.t -> out_value)
  | Of_constructor of Path.t * (int -> (int -> Obj.t -> out_value, Obj.t -> out_value) generic)

(* The printers of the session by the path of their function, the newest first. *)
let printers : (Path.t * printer) list ref = ref []

exception Unknown_printer

let remove name =
  if not (List.exists (fun (p, _) -> Path.same p name) !printers) then raise Not_found;
  printers := List.filter (fun (p, _) -> not (Path.same p name)) !printers

(* A printer that fails prints its failure; what ends an evaluation ends the printing too. *)
let sheltered name print ppf v =
  try print ppf v with
  | (Sys.Break | Out_of_memory | Stack_overflow) as e -> raise e
  | e -> Format.fprintf ppf "<printer %a raised an exception: %s>" Printtyp.path name (Printexc.to_string e)

let install name ty print =
  printers := (name, Of_type (ty, fun v -> Oval_printer (fun ppf -> sheltered name print ppf v))) :: !printers

let install_constructor name path make = printers := (name, Of_constructor (path, make)) :: !printers

(* The same with printers that write: each is turned into one that yields a value for the page, and back. *)
let install_writer name path make =
  let write v ppf = !Oprint.out_value ppf v in
  let rec convert depth = function
    | Zero print -> Zero (fun v -> Oval_printer (fun ppf -> sheltered name print ppf v))
    | Succ f -> Succ (fun inner -> convert depth (f (fun ppf v -> write (inner (depth - 1) v) ppf)))
  in
  printers := (name, Of_constructor (path, fun depth -> convert depth make)) :: !printers

let rec apply_generic make inner args =
  match (make, args) with
  | Zero f, [] -> f
  | Succ f, arg :: rest -> apply_generic (f (fun depth v -> inner depth v arg)) inner rest
  | _ -> fun _ -> Oval_stuff "<internal error: wrong number of arguments for a generic printer>"

(* ---- exceptions without a type ----------------------------------------------------------------------------- *)

(* slot is the identity of an exception or extension constructor, name what it was declared as. *)
let slot v = if Obj.tag v = Obj.object_tag then v else Obj.field v 0
let name v : string = Obj.obj (Obj.field (slot v) 0)

let rec upto n f i = if i >= n then [] else let v = f i in v :: upto n f (i + 1)

let untyped_exception v =
  let constructor = Oide_ident { printed_name = name v } in
  let argument v =
    if Obj.is_int v then Oval_int (Obj.obj v)
    else if Obj.tag v = Obj.string_tag then Oval_string (Obj.obj v, max_int, Ostr_string)
    else if Obj.tag v = Obj.double_tag then Oval_float (Obj.obj v)
    else Oval_constr (Oide_ident { printed_name = "_" }, [])
  in
  let fields v from = upto (Obj.size v) (fun i -> argument (Obj.field v i)) from in
  if Obj.tag v = Obj.object_tag then Oval_constr (constructor, [])
  else
    match name v with
    | ("Match_failure" | "Assert_failure" | "Undefined_recursive_module")
      when Obj.size v = 2 && Obj.is_block (Obj.field v 1) && Obj.tag (Obj.field v 1) = 0 ->
        Oval_constr (constructor, fields (Obj.field v 1) 0)
    | _ -> Oval_constr (constructor, fields v 1)

(* ---- names -------------------------------------------------------------------------------------------------- *)

let result_path ty = match C.desc ty with Tconstr (path, _, _) -> Some path | _ -> None

(* A constructor or label is printed with its module where its name alone means something else. *)
let qualified found path name =
  match path with
  | Path.Pident _ -> Oide_ident { printed_name = name }
  | Path.Pdot (inside, _) -> (
      match found (Longident.Lident name) with
      | Some p when Path.same p path -> Oide_ident { printed_name = name }
      | Some _ | None | (exception Not_found) -> Oide_dot (Printtyp.tree_of_path inside, name))
  | _ -> Printtyp.tree_of_path path

let constructor_name env = qualified (fun l -> result_path (Env.find_constructor_by_name l env).cstr_res)
let label_name env = qualified (fun l -> result_path (Env.find_label_by_name l env).lbl_res)

(* ---- values ------------------------------------------------------------------------------------------------- *)

module Blocks = Hashtbl.Make (struct
  type t = Obj.t

  let equal = ( == )
  let hash = Hashtbl.hash
end)

let builtin =
  [
    (Predef.path_int, fun _ v -> Oval_int (Obj.obj v));
    (Predef.path_float, fun _ v -> Oval_float (Obj.obj v));
    (Predef.path_char, fun _ v -> Oval_char (Obj.obj v));
    (Predef.path_int32, fun _ v -> Oval_int32 (Obj.obj v));
    (Predef.path_int64, fun _ v -> Oval_int64 (Obj.obj v));
    (Predef.path_nativeint, fun _ v -> Oval_nativeint (Obj.obj v));
    (Predef.path_string, fun left v -> Oval_string (Obj.obj v, left, Ostr_string));
    (Predef.path_bytes, fun left v -> Oval_string (Bytes.to_string (Obj.obj v), left, Ostr_bytes));
  ]

let to_out ~address ~max_steps ~max_depth env v ty =
  let steps = ref max_steps in
  let inside = Blocks.create 8 in
  (* within f v is f v while v is known to be under way: what contains itself is cut there. *)
  let within cut f v =
    if Obj.is_block v && Obj.tag v < Obj.no_scan_tag && Obj.tag v <> Obj.closure_tag && Obj.tag v <> Obj.infix_tag && Obj.size v > 0 then
      if Blocks.mem inside v then cut
      else begin
        Blocks.add inside v ();
        let r = f v in
        Blocks.remove inside v;
        r
      end
    else f v
  in
  let cycle = Oval_stuff "<cycle>" in
  let instance params ty args =
    match Ctype.apply env params ty args with
    | ty -> ty
    | exception Ctype.Cannot_apply -> C.abstract ()
  in
  let rec tree depth v ty =
    decr steps;
    if !steps < 0 || depth < 0 then Oval_ellipsis
    else
      match printer depth v ty !printers with
      | value -> value
      | exception Unknown_printer -> (
          let head = try Ctype.expand_head env ty with _ -> ty in
          match C.desc head with
          | Tconstr (path, [], _) when List.exists (fun (p, _) -> Path.same p path) builtin ->
              let _, print = List.find (fun (p, _) -> Path.same p path) builtin in
              print !steps v
          | _ -> by_type depth v ty)
  and printer depth v ty = function
    | [] -> raise Unknown_printer
    | (_, Of_type (scheme, print)) :: rest ->
        if C.more_general env scheme ty then print v else printer depth v ty rest
    | (name, Of_constructor (path, make)) :: rest -> (
        match C.desc (Ctype.expand_head env ty) with
        | Tconstr (p, args, _) when Path.same p path -> (
            try apply_generic (make depth) tree args v with
            | (Sys.Break | Out_of_memory | Stack_overflow) as e -> raise e
            | e -> Oval_stuff (Format.asprintf "<printer %a raised an exception: %s>" Printtyp.path name (Printexc.to_string e)))
        | _ -> printer depth v ty rest)
  and by_type depth v ty =
    match C.desc ty with
    | Tvar _ | Tunivar _ -> Oval_stuff "<poly>"
    | Tarrow _ -> Oval_stuff "<fun>"
    | Ttuple types -> Oval_tuple (fields depth v 0 types)
    | Tconstr (path, [ arg ], _) when Path.same path Predef.path_list ->
        if Obj.is_block v then Oval_list (List.rev (elements depth arg [] v)) else Oval_list []
    | Tconstr (path, [ arg ], _) when Path.same path Predef.path_array -> Oval_array (cells depth arg v)
    | Tconstr (path, [ arg ], _) when Path.same path Predef.path_lazy_t -> suspended depth arg v
    | Tconstr (path, args, _) -> (
        match Env.find_type path env with
        | decl -> declared depth v path args decl
        | exception Not_found -> Oval_stuff "<abstr>"
        | exception Datarepr.Constr_not_found -> Oval_stuff "<unknown constructor>")
    | Tvariant row -> tagged depth v row
    | Tobject _ -> Oval_stuff "<obj>"
    | Tpoly (ty, _) -> tree (depth - 1) v ty
    | Tpackage _ -> Oval_stuff "<module>"
    | Tsubst (ty, _) -> tree (depth - 1) v ty
    | Tfield _ | Tnil | Tlink _ -> Oval_stuff "<obj>"
  and deeper depth v ty = within cycle (fun v -> tree (depth - 1) v ty) v
  and fields depth v from = function
    | [] -> []
    | ty :: rest ->
        let first = deeper depth (Obj.field v from) ty in
        first :: fields depth v (from + 1) rest
  (* A list is a chain, not a depth: each of its cells is under way until its end is reached. *)
  and elements depth ty done_ v =
    if !steps < 0 || depth < 0 then Oval_ellipsis :: done_
    else if Obj.is_block v then
      let first = deeper depth (Obj.field v 0) ty in
      let next = Obj.field v 1 in
      within (cycle :: first :: done_) (elements depth ty (first :: done_)) next
    else done_
  and cells depth ty v =
    let length = Obj.size v in
    if length = 0 then []
    else if Obj.tag v = Obj.double_array_tag then many depth ty length (fun i -> Obj.repr (Obj.double_field v i))
    else many depth ty length (Obj.field v)
  and many depth ty length cell =
    let rec from done_ i =
      if i >= length then List.rev done_
      else if !steps < 0 || depth < 0 then List.rev (Oval_ellipsis :: done_)
      else from (deeper depth (cell i) ty :: done_) (i + 1)
    in
    from [] 0
  and suspended depth ty v =
    let forced v = Oval_constr (Oide_ident { printed_name = "lazy" }, [ deeper depth v ty ]) in
    if Obj.is_block v && Obj.tag v = Obj.lazy_tag then Oval_stuff "<lazy>"
    else if Obj.is_block v && Obj.tag v = Obj.forward_tag then forced (Obj.field v 0)
    else forced v
  and declared depth v path args decl =
    match decl.type_kind with
    | Type_abstract -> (
        match decl.type_manifest with
        | None -> Oval_stuff "<abstr>"
        | Some body -> tree depth v (instance decl.type_params body args))
    | Type_variant (constructors, Variant_unboxed) -> (
        match constructors with
        | [ c ] -> constructed depth v path args decl c ~unboxed:true
        | _ -> Oval_stuff "<abstr>")
    | Type_variant (constructors, Variant_regular) ->
        let tag = if Obj.is_block v then Cstr_block (Obj.tag v) else Cstr_constant (Obj.obj v) in
        constructed depth v path args decl (C.constructor_of_tag tag constructors) ~unboxed:false
    | Type_record (labels, representation) ->
        let from = match representation with Record_extension _ -> 1 | _ -> 0 in
        let unboxed = match representation with Record_unboxed _ -> true | _ -> false in
        record depth v path args decl.type_params labels from unboxed
    | Type_open -> extension depth v path args
  and constructed depth v path args decl c ~unboxed =
    let params =
      match c.cd_res with
      | None -> decl.type_params
      | Some ty -> ( match C.desc ty with Tconstr (_, params, _) -> params | _ -> decl.type_params)
    in
    let name = constructor_name env path (Ident.name c.cd_id) in
    match c.cd_args with
    | Cstr_tuple [ ty ] when unboxed -> Oval_constr (name, [ tree (depth - 1) v (instance params ty args) ])
    | Cstr_tuple types -> Oval_constr (name, fields depth v 0 (List.map (fun ty -> instance params ty args) types))
    | Cstr_record labels ->
        (* The labels of an inline record are never qualified. *)
        let own = Path.Pident c.cd_id in
        Oval_constr (name, [ record depth v own args params labels 0 unboxed ])
  and record depth v path args params labels from unboxed =
    let floats = (not unboxed) && Obj.is_block v && Obj.tag v = Obj.double_array_tag in
    let rec each i = function
      | [] -> []
      | label :: rest ->
          let ty = instance params label.ld_type args in
          let name = Ident.name label.ld_id in
          let name = if i = from then label_name env path name else Oide_ident { printed_name = name } in
          let value =
            if unboxed then tree (depth - 1) v ty
            else if floats then deeper depth (Obj.repr (Obj.double_field v i)) ty
            else deeper depth (Obj.field v i) ty
          in
          (name, value) :: each (i + 1) rest
    in
    Oval_record (each from labels)
  and tagged depth v row =
    let named tag =
      List.find_opt (fun (label, _) -> Btype.hash_variant label = tag) (C.row_fields row)
    in
    if Obj.is_block v then
      match named (Obj.obj (Obj.field v 0)) with
      | Some (label, Some ty) -> Oval_variant (label, Some (deeper depth (Obj.field v 1) ty))
      | _ -> Oval_stuff "<variant>"
    else match named (Obj.obj v) with Some (label, _) -> Oval_variant (label, None) | None -> Oval_stuff "<variant>"
  (* An exception is the one that its name means only when that is the same object. *)
  and extension depth v path args =
    let name = name v in
    match
      let c = Env.find_constructor_by_name (C.longident name) env in
      let own = match c.cstr_tag with Cstr_extension (p, _) -> p | _ -> raise Not_found in
      if address (Env.find_constructor_address own env) != slot v then raise Not_found;
      c
    with
    | exception (Sys.Break as e) -> raise e
    | exception _ -> untyped_exception v
    | c -> (
        let params = match C.desc c.cstr_res with Tconstr (_, params, _) -> params | _ -> [] in
        let instances = List.map (fun ty -> instance params ty args) c.cstr_args in
        let label = Oide_ident { printed_name = name } in
        match (c.cstr_inlined, instances) with
        | Some _, [ ty ] -> Oval_constr (label, [ tree (depth - 1) v ty ])
        | _ -> Oval_constr (label, fields depth v 1 instances))
  in
  within cycle (fun v -> tree max_depth v ty) v
