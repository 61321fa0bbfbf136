(* Which phrases can reach beyond the process.

   A keeper costs a fork, so it is not renewed after every phrase, and what it lacks is evaluated again. That may happen
   only to phrases whose second run nobody can notice: those that compute, change the session's own state or print. Here
   a phrase is clean when everything it names is: primitives of the compiler, modules of the standard library that only
   compute, and what clean phrases have defined. Anything else, files, programs, clocks, random numbers, and whatever is
   not understood, is not clean. *)

let computing =
  [
    "Array"; "ArrayLabels"; "Bool"; "Buffer"; "Bytes"; "BytesLabels"; "Char"; "Complex"; "Either"; "Float"; "Format"; "Fun";
    "Hashtbl"; "Int"; "Int32"; "Int64"; "Lazy"; "Lexing"; "List"; "ListLabels"; "Map"; "MoreLabels"; "Nativeint"; "Option";
    "Printf"; "Queue"; "Result"; "Seq"; "Set"; "Stack"; "StdLabels"; "String"; "StringLabels"; "Uchar"; "Unit";
  ]

let reaching =
  [
    "open_out"; "open_out_bin"; "open_out_gen"; "open_in"; "open_in_bin"; "open_in_gen"; "flush_all"; "exit"; "at_exit";
    "do_at_exit"; "unsafe_really_input"; "set_binary_mode_in"; "set_binary_mode_out";
  ]

(* Names are told apart by the stamps of their identifiers, which grow: those of a phrase that is not clean lie in a
   range. The newest range comes first. *)
let ranges : (int * int) list ref = ref []

(* tainted: a phrase that is not clean has named something of the session and may have put a function of its own into
   it. Then nothing of the session is clean any more, nor, when such a phrase defined a module, any module. *)
let tainted = ref false
let modules_tainted = ref false

let stamp id =
  let name = Ident.unique_name id in
  match String.rindex_opt name '_' with
  | None -> -1
  | Some i -> ( try int_of_string (String.sub name (i + 1) (String.length name - i - 1)) with _ -> -1)

let now () = stamp (Ident.create_local "now")

let of_session id =
  let s = stamp id in
  !tainted || s < 0 || List.exists (fun (a, z) -> a <= s && s <= z) !ranges

(* What the walk over one phrase has found. *)
let reaches = ref false
let names_session = ref false
let defines_modules = ref false

let library name rest =
  let n = String.length name in
  if name = "Stdlib" then
    match rest with
    | [ value ] -> if List.mem value reaching then reaches := true
    | m :: _ -> if not (List.mem m computing) then reaches := true
    | [] -> ()
  else if n > 8 && String.sub name 0 8 = "Stdlib__" then begin
    if not (List.mem (String.capitalize_ascii (String.sub name 8 (n - 8))) computing) then reaches := true
  end
  else reaches := true

let rec resolved path rest =
  match path with
  | Path.Pdot (p, name) -> resolved p (name :: rest)
  | Path.Pident id ->
      if Ident.persistent id then library (Ident.name id) rest
      else begin
        names_session := true;
        if of_session id then reaches := true
      end
  | _ -> reaches := true

let value env lid =
  match Shim.find_value lid env with
  | exception _ -> () (* bound in the phrase, or an error *)
  | path, vd -> (
      match vd.Types.val_kind with
      | Types.Val_prim p when p.Primitive.prim_name <> "" && p.Primitive.prim_name.[0] = '%' -> ()
      | _ -> resolved path [])

let named_module lid =
  let known = function "Stdlib" :: m :: _ -> List.mem m computing | m :: _ -> m = "Stdlib" || List.mem m computing | [] -> false in
  match Longident.flatten lid with
  | names -> if !modules_tainted || not (known names) then reaches := true
  | exception _ -> reaches := true

let walker env =
  let open Ast_iterator in
  let open Parsetree in
  {
    default_iterator with
    expr =
      (fun it e ->
        match e.pexp_desc with
        | Pexp_ident { txt; _ } -> value env txt
        | Pexp_constant _ -> ()
        | Pexp_new _ | Pexp_object _ | Pexp_extension _ | Pexp_letop _ -> reaches := true
        | _ -> if not !reaches || not !names_session then default_iterator.expr it e);
    module_expr =
      (fun it m ->
        match m.pmod_desc with
        | Pmod_ident { txt; _ } -> named_module txt
        | Pmod_extension _ -> reaches := true
        | _ -> default_iterator.module_expr it m);
    structure_item =
      (fun it i ->
        match i.pstr_desc with
        | Pstr_primitive _ | Pstr_class _ | Pstr_extension _ -> reaches := true
        | Pstr_module _ | Pstr_recmodule _ | Pstr_open _ | Pstr_include _ ->
            defines_modules := true;
            default_iterator.structure_item it i
        | _ -> default_iterator.structure_item it i);
    attribute = (fun _ _ -> ());
    typ = (fun _ _ -> ());
    location = (fun _ _ -> ());
  }

(* clean tells whether evaluating the phrase twice is the same as once. *)
let clean env phr =
  reaches := false;
  names_session := false;
  defines_modules := false;
  (match phr with
  | Parsetree.Ptop_dir _ -> reaches := true
  | Parsetree.Ptop_def items ->
      let it = walker env in
      (try List.iter (it.Ast_iterator.structure_item it) items with _ -> reaches := true));
  not !reaches

(* around runs a phrase, calls reached first when it is not clean, and keeps what later ones must know of it. *)
let around ~reached env phr run =
  if clean env phr then run ()
  else begin
    reached ();
    let from = now () and names = !names_session and modules = !defines_modules in
    let keep () =
      let upto = now () in
      (ranges := match !ranges with (a, z) :: rest when z >= from - 1 -> (a, upto) :: rest | all -> (from, upto) :: all);
      if names then tainted := true;
      if modules then modules_tainted := true
    in
    match run () with
    | result ->
        keep ();
        result
    | exception e ->
        keep ();
        raise e
  end
