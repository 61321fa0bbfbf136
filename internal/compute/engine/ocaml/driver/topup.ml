let read_back path = !Topup_back.read path
let write_back path data = !Topup_back.write path data
