"""Live games between people and policies, and recordings of these games.

- A `Menu` has the worlds in which people can play (`Place`), and the partners (`Offer`).
- A `GameServer` opens a `Session` for each game: a `LiveGame` with a `Clock` and the connected
  pages. `Program` is the compiled step of a game. `Hands` are the keys that a person
  presses, and `Conduct` is what else the person did. `Rules` are the rules for its people.
- Pages and the server exchange messages, such as `Press` and the frames that `whole_frame` makes. A
  `TileSheet` has the pictures of cells, and a `Screen` knows which of them a page has. `display` is
  the state in words, such as the score.
- A `Journal` records each step of a game, each key, and each frame that was shown. `read_journal`
  returns a `Recording`, and `replay` plays it again. `Recorded` is a game to watch: `scenes` are
  its pictures, and `think` returns what a policy would do.
"""

from ._display import can_hold as can_hold
from ._flags import (
    GameFlags as GameFlags,
    PartnerFlags as PartnerFlags,
    read_partner_flags as read_partner_flags,
)
from ._game_server import GameServer as GameServer, header_of as header_of
from ._journal import (
    EPISODE_SUFFIX as EPISODE_SUFFIX,
    SUFFIX as SUFFIX,
    Header as Header,
    Journal as Journal,
    Recording as Recording,
    SeatRecord as SeatRecord,
    StepLine as StepLine,
    read_journal as read_journal,
    replay as replay,
    write_recording as write_recording,
)
from ._live_game import (
    Conduct as Conduct,
    Hands as Hands,
    LiveGame as LiveGame,
    Program as Program,
)
from ._menu import (
    PERSON as PERSON,
    Menu as Menu,
    Offer as Offer,
    Place as Place,
)
from ._messages import (
    WATCHER as WATCHER,
    Hold as Hold,
    Join as Join,
    Key as Key,
    Leave as Leave,
    Ping as Ping,
    Pong as Pong,
    Press as Press,
    Refusal as Refusal,
    Screen as Screen,
    TileSheet as TileSheet,
    controls_of as controls_of,
    read_body as read_body,
    read_json as read_json,
    read_message as read_message,
    to_text as to_text,
    whole_frame as whole_frame,
)
from ._session import (
    Clock as Clock,
    Page as Page,
    Rules as Rules,
    Session as Session,
    opening_of as opening_of,
)
from ._watch import (
    Recorded as Recorded,
    place_of as place_of,
    read_recorded as read_recorded,
    recorded as recorded,
    scenes as scenes,
    think as think,
)
