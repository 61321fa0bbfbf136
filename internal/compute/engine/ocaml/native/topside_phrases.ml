(* Native phrases: a typed phrase is compiled to an object file, linked as a shared object and run.

   The two files of a phrase have no name: they are removed as soon as they are open, and the assembler, the linker
   and the loader reach them through the process's descriptors. So nothing is left behind however the process ends. *)

(* ---- symbols ------------------------------------------------------------------------------------------------ *)

type ran = Ran of Obj.t | Not_loaded of string

external run_object : string -> string -> ran = "caml_natdynlink_run_toplevel"
external symbol : string -> Obj.t = "caml_natdynlink_loadsym"

let is_loaded name = match symbol name with _ -> true | exception _ -> false
let symbol_of_unit name = "caml" ^ name

exception Undefined of string

let global name = match symbol (symbol_of_unit name) with v -> v | exception _ -> raise (Undefined name)

(* ---- where the files are ------------------------------------------------------------------------------------ *)

let program names =
  let dirs = String.split_on_char ':' (try Sys.getenv "PATH" with Not_found -> "") @ [ "/usr/bin"; "/bin"; "/usr/local/bin" ] in
  List.find_map
    (fun name ->
      List.find_map
        (fun dir ->
          let path = Filename.concat dir name in
          match Unix.access path [ Unix.X_OK ] with () when dir <> "" -> Some path | _ -> None | exception _ -> None)
        dirs)
    names

(* The first word of the compiler's own command, and the options after it. *)
let words s = List.filter (( <> ) "") (String.split_on_char ' ' s)
let assembler =
  lazy
    (match words Config.asm with
    | name :: options when not (String.contains Config.asm '\'' || String.contains Config.asm '"') ->
        Option.map (fun path -> (path, options)) (program [ name ])
    | _ -> None)

let linker = lazy (program [ "ld" ])

(* Memory first; folders from which nothing may be loaded are left out once that is known. *)
let folders = ref [ "/dev/shm"; Filename.get_temp_dir_name (); "/tmp"; "/var/tmp" ]

let count = ref 0

let number : Unix.file_descr -> int = Obj.magic

(* Where the session's code has closed 0, 1 or 2, a new descriptor must not take their places. *)
let rec above_standard fd =
  if number fd > 2 then fd
  else begin
    let other = Unix.dup fd in
    let high = try above_standard other with e -> Unix.close fd; raise e in
    Unix.close fd;
    high
  end

let pipe () =
  let read, write = Unix.pipe () in
  let read = above_standard read in
  let write = above_standard write in
  Unix.set_close_on_exec read;
  Unix.set_close_on_exec write;
  (read, write)

(* An open file without a name. Its descriptor is inherited by the programs that write it. *)
let nameless folder =
  incr count;
  let path = Filename.concat folder (Printf.sprintf ".topside-%d-%d" (Unix.getpid ()) !count) in
  let fd = Unix.openfile path [ Unix.O_RDWR; Unix.O_CREAT; Unix.O_EXCL ] 0o700 in
  (try Unix.unlink path with _ -> ());
  above_standard fd

let path_of fd = Printf.sprintf "/proc/self/fd/%d" (number fd)

(* The loader takes two objects of one name for the same; here each has its own way of writing the path. *)
let distinct_path fd n =
  let b = Buffer.create 64 in
  let rec digits n = if n > 0 then (Buffer.add_string b (if n land 1 = 1 then "/./" else "//"); digits (n lsr 1)) in
  digits n;
  Printf.sprintf "/proc/self%s/fd/%d" (Buffer.contents b) (number fd)

let close fd = try Unix.close fd with _ -> ()

let size fd = try (Unix.fstat fd).Unix.st_size with _ -> 0

let content fd =
  let n = min (size fd) 4000 in
  let b = Bytes.create n in
  (try ignore (Unix.lseek fd 0 Unix.SEEK_SET) with _ -> ());
  match Unix.read fd b 0 n with k -> Bytes.sub_string b 0 k | exception _ -> ""

exception Failed of string

let rec wait pid =
  match Unix.waitpid [] pid with
  | _, Unix.WEXITED n -> n
  | _, _ -> 1
  | exception Unix.Unix_error (Unix.EINTR, _, _) -> wait pid
  (* The session's code ignores SIGCHLD: what was written tells. *)
  | exception Unix.Unix_error (Unix.ECHILD, _, _) -> 0

(* ---- compiling ---------------------------------------------------------------------------------------------- *)

let ppf_dump = Format.make_formatter (fun _ _ _ -> ()) ignore

let backend : (module Backend_intf.S) =
  (module struct
    let symbol_for_global' = Compilenv.symbol_for_global'
    let closure_symbol = Compilenv.closure_symbol
    let really_import_approx x = x
    let import_symbol _ = raise Not_found
    let size_int = Arch.size_int
    let big_endian = Arch.big_endian
    let max_sensible_number_of_arguments = Proc.max_arguments_for_tailcalls - 1
  end)

(* The assembler that is running: the text goes to its standard input while it already works. *)
type assembling = { pid : int; input : Unix.file_descr }

let start_assembler (path, options) obj said =
  let read, write = pipe () in
  match
    Unix.create_process path
      (Array.of_list ((path :: options) @ [ "-o"; path_of obj; "-" ]))
      read said said
  with
  | pid ->
      Unix.close read;
      { pid; input = write }
  | exception e ->
      Unix.close read;
      Unix.close write;
      raise e

let assemble a asm =
  let oc = Unix.out_channel_of_descr a.input in
  match
    X86_gas.generate_asm oc asm;
    close_out oc
  with
  | () -> ()
  | exception e ->
      close_out_noerr oc;
      raise e

(* forget drops what a compilation that did not end has left in the compiler. *)
let forget () =
  X86_proc.reset_asm_code ();
  Emitaux.reset ();
  ignore (Cmmgen_state.get_and_clear_constants ());
  ignore (Cmmgen_state.get_and_clear_data_items ());
  (try while not (Cmmgen_state.no_more_functions ()) do ignore (Cmmgen_state.next_function ()) done with _ -> ())

(* Interrupts wait while the compiler works: it cannot be stopped in the middle. They arrive right after. *)
let undisturbed f =
  let before = Unix.sigprocmask Unix.SIG_BLOCK [ Sys.sigint ] in
  let restore () = ignore (Unix.sigprocmask Unix.SIG_SETMASK before) in
  match f () with
  | r ->
      restore ();
      r
  | exception e ->
      restore ();
      raise e

let link obj so said =
  match Lazy.force linker with
  | None -> raise (Failed "the linker ld is not on PATH")
  | Some ld ->
      let args =
        [ ld; "-shared"; "-Bsymbolic"; "-s"; "--hash-style=gnu"; "--build-id=none"; "-z"; "noseparate-code"; "-z"; "norelro"; "-o"; path_of so; path_of obj ]
      in
      let pid = Unix.create_process ld (Array.of_list args) said said said in
      if wait pid <> 0 || size so = 0 then raise (Failed ("linking failed: " ^ String.trim (content said)))

(* What the code generator's output goes to: the assembler of the phrase, or one that writes a named file. *)
let to_file asm path =
  match Lazy.force assembler with
  | None -> raise (Failed ("the assembler is not on PATH: " ^ Config.asm))
  | Some (program, options) ->
      let read, write = pipe () in
      let pid =
        Unix.create_process program (Array.of_list ((program :: options) @ [ "-o"; path; "-" ])) read Unix.stderr Unix.stderr
      in
      Unix.close read;
      assemble { pid; input = write } asm;
      if wait pid <> 0 then raise (Failed "assembling failed")

let pending : (X86_ast.asm_program -> string -> unit) ref = ref to_file

(* build makes the shared object of a unit in a folder. *)
let build folder name lambda size_ =
  let files = ref [] in
  let file () =
    let fd = nameless folder in
    files := fd :: !files;
    fd
  in
  let drop fd =
    files := List.filter (( <> ) fd) !files;
    close fd
  in
  match
    let obj = file () and said = file () in
    let tool = match Lazy.force assembler with Some t -> t | None -> raise (Failed ("the assembler is not on PATH: " ^ Config.asm)) in
    let a = start_assembler tool obj said in
    let ended = ref false in
    (match
       (pending := fun asm _ -> assemble a asm);
       Compilenv.reset name;
       (* They would be looked for when the phrase that declares them is loaded, and not where they are used. *)
       Translmod.primitive_declarations := [];
       Asmgen.compile_implementation
         ~toplevel:(fun name -> not (is_loaded name))
         ~backend ~prefixname:"" ~middle_end:Closure_middle_end.lambda_to_clambda ~ppf_dump
         {
           Lambda.code = lambda;
           main_module_block_size = size_;
           module_ident = Ident.create_persistent name;
           required_globals = Ident.Set.empty;
         };
       pending := to_file;
       ended := true;
       wait a.pid
     with
    | 0 when size obj > 0 -> ()
    | _ -> raise (Failed ("assembling failed: " ^ String.trim (content said)))
    | exception e ->
        pending := to_file;
        if not !ended then begin
          close a.input;
          (try Unix.kill a.pid Sys.sigkill with _ -> ());
          ignore (wait a.pid)
        end;
        raise e);
    let so = file () in
    link obj so said;
    drop obj;
    drop said;
    so
  with
  | so -> so
  | exception e ->
      List.iter close !files;
      forget ();
      raise e

let () =
  Emitaux.binary_backend_available := true;
  X86_proc.register_internal_assembler (fun asm path -> !pending asm path)

let contains part s =
  let n = String.length part in
  let rec at i = i + n <= String.length s && (String.sub s i n = part || at (i + 1)) in
  at 0

(* An undefined symbol is a unit that is not loaded, or a C function. *)
let undefined text =
  let mark = "undefined symbol: " in
  let n = String.length mark in
  let rec find i =
    if i + n > String.length text then None
    else if String.sub text i n = mark then
      let name = String.sub text (i + n) (String.length text - i - n) in
      Some (List.hd (String.split_on_char ' ' (String.trim name)))
    else find (i + 1)
  in
  find 0

(* camlStr__regexp_12 belongs to unit Str, camlStdlib__List__map_3 to Stdlib__List. *)
let unit_of_symbol s =
  let n = String.length s in
  if n > 4 && String.sub s 0 4 = "caml" && s.[4] >= 'A' && s.[4] <= 'Z' then begin
    let rec stop i =
      if i + 1 >= n then n
      else if s.[i] = '_' && s.[i + 1] = '_' && i + 2 < n && not (s.[i + 2] >= 'A' && s.[i + 2] <= 'Z') then i
      else stop (i + 1)
    in
    Some (String.sub s 4 (stop 4 - 4))
  end
  else None

exception Missing_primitive of string

(* A folder is usable when a file can be made and written in it. *)
let usable folder =
  match nameless folder with
  | exception _ -> false
  | fd ->
      let written = try Unix.write fd (Bytes.create 65536) 0 65536 = 65536 with _ -> false in
      close fd;
      written

(* run compiles the unit and evaluates it. An exception of the session's code passes through. A folder is given up
   when another one turns out to be better: a full one, or one that nothing may be loaded from. *)
let run ~around name lambda size_ =
  let rec attempt why = function
    | [] -> raise (Failed why)
    | folder :: rest -> (
        match undisturbed (fun () -> around (fun () -> build folder name lambda size_)) with
        | exception ((Unix.Unix_error _ | Sys_error _ | Failed _) as e) when rest <> [] && not (usable folder) ->
            attempt (match e with Failed text | Sys_error text -> text | _ -> Printexc.to_string e) rest
        | so -> (
            let settled () = folders := folder :: rest in
            match run_object (distinct_path so !count) name with
            | Ran v ->
                close so;
                settled ();
                v
            | Not_loaded text -> (
                close so;
                match undefined text with
                | Some s -> (
                    match unit_of_symbol s with Some u -> raise (Undefined u) | None -> raise (Missing_primitive s))
                | None -> attempt ("loading failed: " ^ text) rest)
            | exception e ->
                close so;
                settled ();
                raise e))
  in
  attempt "there is no folder for native phrases" !folders
