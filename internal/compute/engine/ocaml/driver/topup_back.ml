(* The functions behind module Topup. They are kept apart so that the session sees Topup's two functions only;
   the driver replaces them when the files live with a peer. *)

let local_cap () =
  match Sys.getenv_opt "TOPUP_XFER_MAX_BYTES" with
  | None -> 16777216
  | Some s -> ( match int_of_string_opt (String.trim s) with Some n when n > 0 -> n | _ -> 16777216)

let local_read path =
  let fail text = failwith ("Topup.read_back: " ^ text) in
  match Unix.stat path with
  | exception Unix.Unix_error (Unix.ENOENT, _, _) -> fail ("no such file: " ^ path)
  | exception Unix.Unix_error (e, _, _) -> fail (Unix.error_message e ^ ": " ^ path)
  | { Unix.st_kind; _ } when st_kind <> Unix.S_REG -> fail ("not a regular file: " ^ path)
  | { Unix.st_size; _ } when st_size > local_cap () ->
      fail
        (Printf.sprintf "file too large: %s is %d bytes; cap is %d (TOPUP_XFER_MAX_BYTES)" path st_size
           (local_cap ()))
  | _ -> (
      match open_in_bin path with
      | exception Sys_error text -> fail text
      | ic ->
          let n = in_channel_length ic in
          let b = Bytes.create n in
          (try really_input ic b 0 n
           with e ->
             close_in_noerr ic;
             raise e);
          close_in_noerr ic;
          b)

let local_write path data =
  let fail text = failwith ("Topup.write_back: " ^ text) in
  let n = Bytes.length data in
  if n > local_cap () then
    fail (Printf.sprintf "payload too large: %d bytes; cap is %d (TOPUP_XFER_MAX_BYTES)" n (local_cap ()));
  let tmp = path ^ ".tmp" in
  match
    let oc = open_out_gen [ Open_wronly; Open_creat; Open_trunc; Open_binary ] 0o600 tmp in
    (try
       output_bytes oc data;
       close_out oc
     with e ->
       close_out_noerr oc;
       raise e);
    Sys.rename tmp path
  with
  | () -> ()
  | exception Sys_error text -> fail text

let read : (string -> bytes) ref = ref local_read
let write : (string -> bytes -> unit) ref = ref local_write
