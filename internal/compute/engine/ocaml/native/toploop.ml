(* Module Toploop of a native session, for compilers that come without theirs. It has the interface of the
   compiler's own Toploop, so that the driver, findlib and the session's code find what they know. *)

open Format
module C = Topside_compiler
module Values = Topside_values
module Phrases = Topside_phrases

(* Only bytecode phrases use these two. *)
let getvalue name : Obj.t = failwith ("Toploop.getvalue " ^ name)
let setvalue name (_ : Obj.t) : unit = failwith ("Toploop.setvalue " ^ name)

(* ---- directives --------------------------------------------------------------------------------------------- *)

type directive_fun =
  | Directive_none of (unit -> unit)
  | Directive_string of (string -> unit)
  | Directive_int of (int -> unit)
  | Directive_ident of (Longident.t -> unit)
  | Directive_bool of (bool -> unit)

type directive_info = { section : string; doc : string }

let directive_table : (string, directive_fun) Hashtbl.t = Hashtbl.create 40
let directive_info_table : (string, directive_info) Hashtbl.t = Hashtbl.create 40

let add_directive name f info =
  Hashtbl.replace directive_table name f;
  Hashtbl.replace directive_info_table name info

let get_directive name = Hashtbl.find_opt directive_table name
let get_directive_info name = Hashtbl.find_opt directive_info_table name
let all_directive_names () = Hashtbl.fold (fun name _ all -> name :: all) directive_table []

(* ---- hooks -------------------------------------------------------------------------------------------------- *)


(* The compiler itself runs on the process's stack here. When that is not enough for a phrase, the runtime's heap
   cannot be trusted any more (seen with 4.13), so the process ends and the session goes on from before the phrase. *)
let compiling f =
  try f ()
  with Stack_overflow ->
    prerr_endline "Stack overflow in the compiler: the phrase is too large or too deeply nested for native code.";
    Unix.kill (Unix.getpid ()) Sys.sigkill;
    raise Stack_overflow

let parse_toplevel_phrase = ref (fun lexbuf -> compiling (fun () -> Parse.toplevel_phrase lexbuf))
let parse_use_file = ref (fun lexbuf -> compiling (fun () -> Parse.use_file lexbuf))
let print_location = Location.print_loc
let print_error = Location.print_report
let print_warning = Location.print_warning
let input_name = Location.input_name
let print_out_value = Oprint.out_value
let print_out_type = Oprint.out_type
let print_out_class_type = Oprint.out_class_type
let print_out_module_type = Oprint.out_module_type
let print_out_type_extension = Oprint.out_type_extension
let print_out_sig_item = Oprint.out_sig_item
let print_out_signature = Oprint.out_signature
let print_out_phrase = Oprint.out_phrase
let read_interactive_input = ref (fun _ (_ : bytes) _ -> (0, true))
let toplevel_startup_hook = ref (fun () -> ())

type event = ..
type event += Startup | After_setup

let hooks : (event -> unit) list ref = ref []
let add_hook f = hooks := f :: !hooks
let run_hooks event = List.iter (fun f -> f event) (List.rev !hooks)
let may_trace = ref false

(* ---- the environment ---------------------------------------------------------------------------------------- *)

let toplevel_env = ref Env.empty
let initialize_toplevel_env () = toplevel_env := Compmisc.initial_env ()
let set_paths () = C.init_path ()

(* A global value is in the block of its phrase, or is a compilation unit. *)
let rec at_address = function
  | Env.Adot (inside, field) -> Obj.field (at_address inside) field
  | Env.Aident id ->
      if Ident.persistent id || Ident.global id then Phrases.global (Ident.name id)
      else
        let unit_, field = Translmod.nat_toplevel_name id in
        Obj.field (Phrases.global (Ident.name unit_)) field

let eval_path find env path = at_address (find path env)
let eval_module_path env path = eval_path Env.find_module_address env path
let eval_value_path env path = eval_path Env.find_value_address env path
let eval_extension_path env path = eval_path Env.find_constructor_address env path
let eval_class_path env path = eval_path Env.find_class_address env path

(* ---- printing ----------------------------------------------------------------------------------------------- *)

let max_printer_depth = ref 100
let max_printer_steps = ref 300

let out_value env v ty =
  Values.to_out ~address:at_address ~max_steps:!max_printer_steps ~max_depth:!max_printer_depth env v ty

let print_value env v ppf ty = !print_out_value ppf (out_value env v ty)
let print_untyped_exception ppf v = !print_out_value ppf (Values.untyped_exception v)

type ('a, 'b) gen_printer = Zero of 'b | Succ of ('a -> ('a, 'b) gen_printer)

let rec generic : type a b. (a, b) gen_printer -> (a, b) Values.generic = function
  | Zero f -> Values.Zero f
  | Succ f -> Values.Succ (fun x -> generic (f x))

let install_printer = Values.install
let install_generic_printer name path make = Values.install_constructor name path (fun depth -> generic (make depth))
let install_generic_printer' name path make = Values.install_writer name path (generic make)
let remove_printer = Values.remove

(* The backtrace of the last exception that ended a phrase. *)
let backtrace : string option ref = ref None
let record_backtrace () = if Printexc.backtrace_status () then backtrace := Some (Printexc.get_backtrace ())

let print_exception_outcome ppf exn =
  if exn = Out_of_memory then Gc.full_major ();
  let value = out_value !toplevel_env (Obj.repr exn) Predef.type_exn in
  !print_out_phrase ppf (Outcometree.Ophr_exception (exn, value));
  (match !backtrace with None -> () | Some text -> pp_print_string ppf text);
  backtrace := None

(* ---- phrases ------------------------------------------------------------------------------------------------ *)

let phrase_count = ref 0

let unit_name () =
  incr phrase_count;
  "TOP" ^ string_of_int !phrase_count

(* What a phrase declares has no other name than its own, though it is in a unit of the phrase: an exception is
   printed as My_error and not as TOP12.My_error. *)
let unqualified name lambda =
  let prefix = name ^ "." in
  let n = String.length prefix in
  Lambda.map
    (function
      | Lambda.Lprim ((Pmakeblock (tag, _, _) as block), Lambda.Lconst (Const_base (Const_string (text, loc, delimiter))) :: rest, where)
        when tag = Obj.object_tag && String.length text > n && String.sub text 0 n = prefix ->
          let text = String.sub text n (String.length text - n) in
          Lambda.Lprim (block, Lambda.Lconst (Const_base (Const_string (text, loc, delimiter))) :: rest, where)
      | other -> other)
    lambda

let starts_with prefix s =
  String.length s >= String.length prefix && String.sub s 0 (String.length prefix) = prefix

let contains = Phrases.contains

(* The frames of the session's own code, as the bytecode toplevel tells them: without the phrase itself, the
   standard library and the toplevel. "Called from TOP12.f in file ...": f is all that its author calls it. *)
let frames unit_ =
  let ours = Printf.sprintf "file %S" "topside_phrases.ml" in
  let rec inside = function
    | [] -> []
    | line :: _ when contains ours line -> []
    | line :: next :: _ when contains ours next && (contains (" " ^ unit_ ^ ".") line || contains (" " ^ unit_ ^ " ") line) -> []
    | line :: rest -> line :: inside rest
  in
  let own line =
    match String.split_on_char ' ' line with
    | called :: from :: name :: rest when starts_with "TOP" name && contains "." name ->
        let i = String.index name '.' in
        Some (String.concat " " (called :: from :: String.sub name (i + 1) (String.length name - i - 1) :: rest))
    | _ when contains "Stdlib" line || not (contains "file " line) -> None
    | _ -> Some line
  in
  match List.filter_map own (inside (String.split_on_char '\n' (Printexc.get_backtrace ()))) with
  | [] -> None
  | lines -> Some (String.concat "\n" lines ^ "\n")

type outcome = Value of Obj.t | Raised of exn

exception Refused of string

(* What the compiler says of its own libraries, such as that an interface has no .cmx file, is not for the session. *)
let without_advice f =
  let before = Warnings.backup () in
  ignore (Warnings.parse_options false "-58");
  Fun.protect ~finally:(fun () -> Warnings.restore before) f

let run_unit name lambda size =
  match Phrases.run ~around:(fun build -> compiling (fun () -> without_advice build)) name lambda size with
  | v -> Value v
  | exception Phrases.Undefined u -> raise (Refused (Printf.sprintf "Reference to undefined global `%s'" u))
  | exception Phrases.Missing_primitive f -> raise (Refused (Printf.sprintf "The external function `%s' is not available" f))
  | exception Phrases.Failed text -> raise (Refused text)
  | exception e ->
      backtrace := if Printexc.backtrace_status () then frames name else None;
      Raised e

(* The expression of a phrase that is one, and how its value is reached: it is bound to a name of no scope. *)
let as_binding (typed : Typedtree.structure) =
  let bound (e : Typedtree.expression) (item : Typedtree.structure_item) =
    let id = Ident.create_local "_$" in
    let pattern =
      {
        Typedtree.pat_desc = Typedtree.Tpat_var (id, Location.mknoloc "_$");
        pat_loc = e.exp_loc;
        pat_extra = [];
        pat_type = e.exp_type;
        pat_env = e.exp_env;
        pat_attributes = [];
      }
    in
    let binding = { Typedtree.vb_pat = pattern; vb_expr = e; vb_attributes = []; vb_loc = e.exp_loc } in
    let item = { item with Typedtree.str_desc = Typedtree.Tstr_value (Asttypes.Nonrecursive, [ binding ]) } in
    Some (id, e, { typed with Typedtree.str_items = [ item ] })
  in
  match typed.str_items with
  | [ ({ str_desc = Tstr_eval (e, _); _ } as item) ] -> bound e item
  | [ ({ str_desc = Tstr_value (Asttypes.Nonrecursive, [ { vb_pat = { pat_desc = Tpat_any; _ }; vb_expr = e; _ } ]); _ } as item) ] ->
      bound e item
  | _ -> None

let clear id =
  let unit_, field = Translmod.nat_toplevel_name id in
  Obj.set_field (Phrases.global (Ident.name unit_)) field (Obj.repr 0)

let definitions show ppf items =
  let before = !toplevel_env in
  let name = unit_name () in
  let signature, after, expression, size, lambda =
    compiling (fun () ->
        Typecore.reset_delayed_checks ();
        let typed, signature, after = C.type_phrase before items in
        C.check_signature before signature;
        Typecore.force_delayed_checks ();
        let expression = as_binding typed in
        Compilenv.reset name;
        let size, lambda =
          Translmod.transl_store_phrases name (match expression with Some (_, _, bound) -> bound | None -> typed)
        in
        let lambda = Simplif.simplify_lambda (unqualified name lambda) in
        Warnings.check_fatal ();
        (signature, after, expression, size, lambda))
  in
  match
    toplevel_env := after;
    let r = run_unit name lambda size in
    (match r with Value _ -> Compilenv.record_global_approx_toplevel () | Raised _ -> ());
    r
  with
  | Value _ ->
      let outcome =
        if not show then Outcometree.Ophr_signature []
        else
          match expression with
          | Some (id, e, _) ->
              let v = at_address (Env.Aident id) in
              Printtyp.wrap_printing_env ~error:false before (fun () ->
                  let value = out_value after v e.exp_type in
                  Outcometree.Ophr_eval (value, Printtyp.tree_of_type_scheme e.exp_type))
          | None ->
              Printtyp.wrap_printing_env ~error:false before (fun () ->
                  let value env = function
                    | Types.Sig_value (id, ({ val_kind = Val_reg; _ } as d), _) ->
                        Some (out_value env (at_address (Env.Aident id)) d.val_type)
                    | _ -> None
                  in
                  Outcometree.Ophr_signature (Printtyp.print_items value before signature))
      in
      (match expression with Some (id, _, _) -> clear id | None -> ());
      !print_out_phrase ppf outcome;
      true
  | Raised exn ->
      toplevel_env := before;
      print_exception_outcome ppf exn;
      false
  | exception e ->
      toplevel_env := before;
      raise e

(* ---- directives in phrases ---------------------------------------------------------------------------------- *)

let directive ppf (d : Parsetree.toplevel_directive) =
  let name = d.pdir_name.txt in
  match get_directive name with
  | None ->
      fprintf ppf "Unknown directive `%s'." name;
      let near = Misc.spellcheck (all_directive_names ()) name in
      Misc.did_you_mean ppf (fun () -> near);
      pp_print_newline ppf ();
      false
  | Some f -> (
      let wrong () =
        fprintf ppf "Wrong type of argument for directive `%s'.@." name;
        false
      in
      let arg = Option.map (fun (a : Parsetree.directive_argument) -> a.pdira_desc) d.pdir_arg in
      match (f, arg) with
      | Directive_none f, None -> f (); true
      | Directive_string f, Some (Pdir_string s) -> f s; true
      | Directive_int f, Some (Pdir_int (s, None)) -> (
          match Misc.Int_literal_converter.int s with
          | n -> f n; true
          | exception _ ->
              fprintf ppf "Integer literal exceeds the range of representable integers for directive `%s'.@." name;
              false)
      | Directive_int _, Some (Pdir_int (_, Some _)) -> wrong ()
      | Directive_ident f, Some (Pdir_ident l) -> f l; true
      | Directive_bool f, Some (Pdir_bool b) -> f b; true
      | _ -> wrong ())

let refused_hook : (formatter -> string -> unit) ref = ref (fun ppf text -> fprintf ppf "%s@." text)

let execute_phrase show ppf = function
  | Parsetree.Ptop_dir d -> directive ppf d
  | Parsetree.Ptop_def items -> (
      match definitions show ppf items with
      | ok ->
          Warnings.reset_fatal ();
          ok
      | exception Refused text ->
          Warnings.reset_fatal ();
          !refused_hook ppf text;
          false
      | exception e ->
          Warnings.reset_fatal ();
          raise e)

let preprocess_phrase _ = function
  | Parsetree.Ptop_def items -> Parsetree.Ptop_def (Pparse.apply_rewriters_str ~restore:true ~tool_name:"ocaml" items)
  | phrase -> phrase

(* ---- files -------------------------------------------------------------------------------------------------- *)

let read_file path =
  let ic = open_in_bin path in
  match really_input_string ic (in_channel_length ic) with
  | text ->
      close_in ic;
      text
  | exception e ->
      close_in_noerr ic;
      raise e

let run_text show ppf name text wrap =
  let lexbuf = Lexing.from_string text in
  Location.init lexbuf name;
  Lexer.skip_hash_bang lexbuf;
  let outer = !Location.input_name in
  Location.input_name := name;
  let ok =
    match
      List.for_all
        (fun phrase -> phrase = Parsetree.Ptop_def [] || execute_phrase show ppf (preprocess_phrase ppf phrase))
        (wrap (!parse_use_file lexbuf))
    with
    | ok -> ok
    | exception Exit -> false
    | exception Sys.Break ->
        fprintf ppf "Interrupted.@.";
        false
    | exception e ->
        (try Location.report_exception ppf e
         with e ->
           Location.input_name := outer;
           raise e);
        false
  in
  Location.input_name := outer;
  ok

let found ppf name f =
  match if Sys.file_exists name then name else Load_path.find name with
  | path -> f path (read_file path)
  | exception Not_found ->
      fprintf ppf "Cannot find file %s.@." name;
      false

let use_file ppf name = found ppf name (fun path text -> run_text true ppf path text Fun.id)
let use_silently ppf name = found ppf name (fun path text -> run_text false ppf path text Fun.id)

let use_output ppf command =
  let file = Filename.temp_file "topside" ".ml" in
  Fun.protect
    ~finally:(fun () -> try Sys.remove file with _ -> ())
    (fun () ->
      match Sys.command (command ^ " > " ^ Filename.quote file) with
      | 0 -> run_text true ppf "(command-output)" (read_file file) Fun.id
      | n ->
          fprintf ppf "Command exited with code %d.@." n;
          false)

(* The items of a file as one module, named for it. *)
let mod_use_file ppf name =
  found ppf name (fun path text ->
      let wrap phrases =
        let items =
          List.concat_map (function Parsetree.Ptop_def items -> items | Parsetree.Ptop_dir _ -> []) phrases
        in
        let base = Filename.basename path in
        let base = match String.index_opt base '.' with Some i -> String.sub base 0 i | None -> base in
        let open Ast_helper in
        let binding = Mb.mk (Location.mknoloc (Some (String.capitalize_ascii base))) (Mod.structure items) in
        [ Parsetree.Ptop_def [ Str.module_ binding ] ]
      in
      run_text true ppf path text wrap)

(* What is to be loaded for an archive: the shared object beside it, or one that is linked from it and removed. *)
let shared_of ppf path =
  let base = Filename.remove_extension path in
  if not (Filename.check_suffix path ".cmx" || Filename.check_suffix path ".cmxa") then (path, ignore)
  else if Sys.file_exists (base ^ ".cmxs") then (base ^ ".cmxs", ignore)
  else begin
    let made = Filename.temp_file "topside" ".cmxs" in
    let remove () = try Sys.remove made with _ -> () in
    let everything = !Clflags.link_everything in
    Clflags.link_everything := true;
    Asmlink.reset ();
    match Asmlink.link_shared ~ppf_dump:ppf [ path ] made with
    | () ->
        Clflags.link_everything := everything;
        (made, remove)
    | exception e ->
        Clflags.link_everything := everything;
        remove ();
        raise e
  end

let load_file ppf name =
  let failed path text =
    fprintf ppf "Error while loading %s: %s.@." path text;
    false
  in
  match Load_path.find name with
  | exception Not_found ->
      fprintf ppf "Cannot find file %s.@." name;
      false
  | path -> (
      match shared_of ppf path with
      | exception Asmlink.Error e -> failed path (Format.asprintf "%a" Asmlink.report_error e)
      | shared, remove -> (
          match Dynlink.loadfile shared with
          | () ->
              remove ();
              true
          | exception Dynlink.Error (Dynlink.Library's_module_initializers_failed e) ->
              remove ();
              raise e
          | exception Dynlink.Error (Dynlink.Module_already_loaded _) ->
              remove ();
              true
          | exception Dynlink.Error e ->
              remove ();
              failed path (Dynlink.error_message e)
          | exception e ->
              remove ();
              raise e))

(* ---- what a session does not do ----------------------------------------------------------------------------- *)

external modify_argv : string array -> unit = "caml_sys_modify_argv"

let override_sys_argv args =
  modify_argv args;
  Arg.current := 0

let run_script ppf name args =
  override_sys_argv args;
  Compmisc.init_path ();
  toplevel_env := Compmisc.initial_env ();
  use_silently ppf name

let loop (_ : formatter) : unit = failwith "Toploop.loop: a session has no prompt"
