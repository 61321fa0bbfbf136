(* Module Topdirs of a native session: the directives, with the interface of the compiler's own Topdirs. *)

open Format
open Types
module C = Topside_compiler

let section_general = "General"
let section_run = "Loading code"
let section_env = "Environment queries"
let section_print = "Pretty-printing"
let section_trace = "Tracing"
let section_options = "Compiler options"
let section_undocumented = "Undocumented"
let out = std_formatter

let add name section doc f = Toploop.add_directive name f { Toploop.section; doc }

(* ---- general and loading ------------------------------------------------------------------------------------- *)

let dir_quit () = raise (Compenv.Exit_with_status 0)

let expanded dir = Misc.expand_directory Config.standard_library dir

let dir_directory dir =
  C.add_directory (expanded dir);
  Env.reset_cache_toplevel ()

let dir_remove_directory dir =
  Load_path.remove_dir (expanded dir);
  Env.reset_cache ()

let dir_cd dir = Sys.chdir dir

let dir_load ppf name = ignore (Toploop.load_file ppf name)
let load_file ppf name = Toploop.load_file ppf name
let dir_use ppf name = ignore (Toploop.use_file ppf name)
let dir_use_output ppf name = ignore (Toploop.use_output ppf name)
let dir_mod_use ppf name = ignore (Toploop.mod_use_file ppf name)

(* ---- printers ------------------------------------------------------------------------------------------------ *)

type 'a printer_type_new = Format.formatter -> 'a -> unit
type 'a printer_type_old = 'a -> unit

exception No_printer

type form =
  | Writes of type_expr  (** formatter -> t -> unit *)
  | Prints of type_expr  (** t -> unit *)
  | Writes_constructor of Path.t * int  (** printers of the arguments -> formatter -> _ t -> unit *)

let formatter_type () =
  let path, _ = Env.find_type_by_name Longident.(Ldot (Ldot (Lident "Stdlib", "Format"), "formatter")) !Toploop.toplevel_env in
  Ctype.newconstr path []

let writer ty = C.arrow (formatter_type ()) (C.arrow ty Predef.type_unit)

(* fits tells whether the function has the type that make gives, and returns what make's variables became. *)
let fits (vd : value_description) make =
  Ctype.begin_def ();
  let vars, ty = make () in
  match Ctype.unify !Toploop.toplevel_env ty (Ctype.instance vd.val_type) with
  | () ->
      Ctype.end_def ();
      List.iter Ctype.generalize vars;
      Some vars
  | exception Ctype.Unify _ ->
      Ctype.end_def ();
      None

let rec arity ty = match C.desc (Ctype.expand_head !Toploop.toplevel_env ty) with Tarrow (_, _, rest, _) -> 1 + arity rest | _ -> 0

let form_of vd =
  let one make = fits vd (fun () -> let v = Ctype.newvar () in ([ v ], make v)) in
  match one writer with
  | Some [ ty ] -> Writes ty
  | _ -> (
      let n = arity vd.val_type - 2 in
      let constructor () =
        let args = List.init n (fun _ -> Ctype.newvar ()) in
        let result = Ctype.newvar () in
        (result :: args, List.fold_right (fun a rest -> C.arrow (writer a) rest) args (writer result))
      in
      match if n > 0 then fits vd constructor else None with
      | Some (result :: args) -> (
          match C.desc (Ctype.expand_head !Toploop.toplevel_env result) with
          | Tconstr (path, given, _) when List.length given = n && List.for_all2 (fun a b -> C.same a b) given args ->
              Writes_constructor (path, n)
          | _ -> raise No_printer)
      | _ -> ( match one (fun v -> C.arrow v Predef.type_unit) with Some [ ty ] -> Prints ty | _ -> raise No_printer))

let printer ppf lid =
  match Env.find_value_by_name lid !Toploop.toplevel_env with
  | exception Not_found ->
      fprintf ppf "Unbound value %a.@." Printtyp.longident lid;
      None
  | path, vd -> (
      match form_of vd with
      | form -> Some (path, form)
      | exception No_printer ->
          fprintf ppf "%a has a wrong type for a printing function.@." Printtyp.longident lid;
          None)

let dir_install_printer ppf lid =
  match printer ppf lid with
  | None -> ()
  | Some (path, form) -> (
      let f = Toploop.eval_value_path !Toploop.toplevel_env path in
      match form with
      | Writes ty -> Toploop.install_printer path ty (fun ppf v -> (Obj.obj f : formatter -> Obj.t -> unit) ppf v)
      | Prints ty -> Toploop.install_printer path ty (fun _ v -> (Obj.obj f : Obj.t -> unit) v)
      | Writes_constructor (constructor, n) ->
          let rec make n f =
            if n = 0 then Toploop.Zero (Obj.obj f : formatter -> Obj.t -> unit)
            else Toploop.Succ (fun inner -> make (n - 1) ((Obj.obj f : (formatter -> Obj.t -> unit) -> Obj.t) inner))
          in
          Toploop.install_generic_printer' path constructor (make n f))

let dir_remove_printer ppf lid =
  match printer ppf lid with
  | None -> ()
  | Some (path, _) -> (
      try Toploop.remove_printer path
      with Not_found -> fprintf ppf "No printer named %a.@." Printtyp.longident lid)

(* ---- tracing: phrases are machine code, whose calls cannot be watched ---------------------------------------- *)

let no_trace ppf = fprintf ppf "Unknown directive: native phrases cannot be traced; use a session of engine ocaml.@."
let dir_trace ppf (_ : Longident.t) = no_trace ppf
let dir_untrace ppf (_ : Longident.t) = no_trace ppf
let dir_untrace_all ppf () = no_trace ppf

(* ---- queries ------------------------------------------------------------------------------------------------- *)

let base = function Longident.Lident s | Longident.Ldot (_, s) -> s | Longident.Lapply _ -> raise Exit

(* A module is shown with the signatures of its own modules left out. *)
let rec outline depth = function
  | Mty_signature items -> Mty_signature (List.map (outlined (depth + 1)) items)
  | Mty_functor (param, result) -> Mty_functor (param, outline depth result)
  | other -> other

and outlined depth = function
  | Sig_module (id, presence, ({ md_type = Mty_signature (_ :: _); _ } as md), rs, v) when depth > 0 ->
      let hidden =
        {
          Parsetree.attr_name = Location.mknoloc "...";
          attr_payload = Parsetree.PStr [];
          attr_loc = Location.none;
        }
      in
      Sig_module (id, presence, { md with md_attributes = hidden :: md.md_attributes }, rs, v)
  | item -> item

let show_value env id lid =
  let _, d = Env.lookup_value ~use:false ~loc:Location.none lid env in
  [ Sig_value (id, d, Exported) ]

let show_type env id lid =
  let path, d = Env.lookup_type ~use:false ~loc:Location.none lid env in
  ignore path;
  [ Sig_type (id, d, Trec_first, Exported) ]

let extension id (c : constructor_description) =
  let ext_ret_type = if c.cstr_generalized then Some c.cstr_res else None in
  let path, params = match C.desc c.cstr_res with Tconstr (p, l, _) -> (p, l) | _ -> raise Not_found in
  let args = match c.cstr_inlined with Some { type_kind = Type_record (labels, _); _ } -> Cstr_record labels | _ -> Cstr_tuple c.cstr_args in
  ( path,
    {
      ext_type_path = path;
      ext_type_params = (if Path.same path Predef.path_exn then [] else params);
      ext_args = args;
      ext_ret_type;
      ext_private = Asttypes.Public;
      ext_loc = c.cstr_loc;
      ext_attributes = c.cstr_attributes;
      ext_uid = c.cstr_uid;
    } )

let constructor env lid = Env.lookup_constructor ~use:false ~loc:Location.none Env.Positive lid env

let show_constructor env id lid =
  let c = constructor env lid in
  match c.cstr_tag with
  | Cstr_extension _ ->
      let path, ext = extension id c in
      if Path.same path Predef.path_exn then raise Not_found;
      [ Sig_typext (id, ext, Text_first, Exported) ]
  | _ -> (
      match C.desc c.cstr_res with
      | Tconstr (path, _, _) -> [ Sig_type (Ident.create_persistent (Path.last path), Env.find_type path env, Trec_first, Exported) ]
      | _ -> raise Not_found)

let show_exception env id lid =
  let c = constructor env lid in
  match C.desc c.cstr_res with
  | Tconstr (path, _, _) when Path.same path Predef.path_exn ->
      [ Sig_typext (id, snd (extension id c), Text_exception, Exported) ]
  | _ -> raise Not_found

let show_module env id lid =
  let path = Env.lookup_module_path ~use:false ~loc:Location.none ~load:true lid env in
  let md = Env.find_module path env in
  let item md = Sig_module (id, Mp_present, { md with md_type = outline 0 md.md_type }, Trec_not, Exported) in
  (* An alias is shown with what it stands for. *)
  let rec all md =
    item md
    ::
    (match md.md_type with
    | Mty_alias path -> ( match Env.find_module path env with md -> all md | exception Not_found -> [])
    | _ -> [])
  in
  all md

let show_module_type env id lid =
  let _, d = Env.lookup_modtype ~use:false ~loc:Location.none lid env in
  [ Sig_modtype (id, d, Exported) ]

let show_class env id lid =
  let _, d = Env.lookup_class ~use:false ~loc:Location.none lid env in
  [ Sig_class (id, d, Trec_not, Exported) ]

let show_class_type env id lid =
  let _, d = Env.lookup_cltype ~use:false ~loc:Location.none lid env in
  [ Sig_class_type (id, d, Trec_not, Exported) ]

let kinds =
  [
    ("show_class_type", show_class_type);
    ("show_class", show_class);
    ("show_module_type", show_module_type);
    ("show_module", show_module);
    ("show_constructor", show_constructor);
    ("show_exception", show_exception);
    ("show_type", show_type);
    ("show_val", show_value);
  ]

let print_signature env items =
  Printtyp.wrap_printing_env ~error:false env (fun () -> fprintf out "@[%a@]@." Printtyp.signature items)

let show query lid =
  let env = !Toploop.toplevel_env in
  match query env (Ident.create_persistent (base lid)) lid with
  | items -> print_signature env items
  | exception (Not_found | Exit) -> fprintf out "@[Unknown element.@]@."

let show_all env id lid =
  match
    List.concat_map
      (fun (_, query) -> match query env id lid with items -> items | exception (Not_found | Exit | Env.Error _) -> [])
      kinds
  with
  | [] -> raise Not_found
  | items -> items

(* ---- the table ----------------------------------------------------------------------------------------------- *)

let () =
  let open Toploop in
  add "quit" section_general "Exit the toplevel." (Directive_none dir_quit);
  add "exit" section_general "Exit the toplevel." (Directive_none dir_quit);
  add "directory" section_run "Add the given directory to search path for source and compiled files." (Directive_string dir_directory);
  add "remove_directory" section_run "Remove the given directory from the search path." (Directive_string dir_remove_directory);
  add "cd" section_run "Change the current working directory." (Directive_string dir_cd);
  add "load" section_run "Load in memory a native shared object (.cmxs)." (Directive_string (dir_load out));
  add "load_rec" section_run "As #load." (Directive_string (dir_load out));
  add "use" section_run "Read, compile and execute source phrases from the given file." (Directive_string (dir_use out));
  add "use_output" section_run "Execute a command and read, compile and execute source phrases from its output." (Directive_string (dir_use_output out));
  add "mod_use" section_run "As #use but wraps the contents in a module." (Directive_string (dir_mod_use out));
  add "show_dirs" section_run "List directories currently in the search path."
    (Directive_none (fun () -> List.iter (fprintf out "%s@.") (Load_path.get_paths ())));
  add "install_printer" section_print "Registers a printer for values of a certain type." (Directive_ident (dir_install_printer out));
  add "remove_printer" section_print "Remove the named function from the table of toplevel printers." (Directive_ident (dir_remove_printer out));
  add "print_depth" section_print "Limit the printing of values to a maximal depth of n." (Directive_int (fun n -> max_printer_depth := n));
  add "print_length" section_print "Limit the number of value nodes printed to at most n." (Directive_int (fun n -> max_printer_steps := n));
  add "trace" section_trace "Not with native phrases." (Directive_ident (dir_trace out));
  add "untrace" section_trace "Not with native phrases." (Directive_ident (dir_untrace out));
  add "untrace_all" section_trace "Not with native phrases." (Directive_none (dir_untrace_all out));
  List.iter (fun (name, query) -> add name section_env "Print the signature of the corresponding item." (Directive_ident (show query))) kinds;
  add "show" section_env "Print the signatures of components from any of the categories below." (Directive_ident (show show_all));
  add "labels" section_options "Choose whether to ignore labels in function types." (Directive_bool (fun b -> Clflags.classic := not b));
  add "principal" section_options "Make sure that all types are derived in a principal way." (Directive_bool (fun b -> Clflags.principal := b));
  add "rectypes" section_options "Allow arbitrary recursive types during type-checking." (Directive_none (fun () -> Clflags.recursive_types := true));
  add "ppx" section_options "After parsing, pipe the abstract syntax tree through the preprocessor command."
    (Directive_string (fun s -> Clflags.all_ppx := !Clflags.all_ppx @ [ s ]));
  add "warnings" section_options "Enable or disable warnings according to the argument." (Directive_string (fun s -> ignore (Warnings.parse_options false s)));
  add "warn_error" section_options "Treat as errors the warnings enabled by the argument." (Directive_string (fun s -> ignore (Warnings.parse_options true s)));
  add "debug" section_options "Choose whether to generate debugging events." (Directive_bool (fun b -> Clflags.debug := b));
  add "help" section_general "Prints a list of all available directives, with corresponding argument type if appropriate."
    (Directive_none
       (fun () ->
         List.iter
           (fun name ->
             let arg =
               match get_directive name with
               | Some (Directive_string _) -> " <str>"
               | Some (Directive_int _) -> " <int>"
               | Some (Directive_bool _) -> " <bool>"
               | Some (Directive_ident _) -> " <ident>"
               | _ -> ""
             in
             match get_directive_info name with
             | Some { doc; _ } -> fprintf out "#%s%s@\n  %s@." name arg doc
             | None -> fprintf out "#%s%s@." name arg)
           (List.sort compare (all_directive_names ()))))
