/** Windows has no files of these names, with whatever ending. */
const reserved = /^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[\d¹²³])[ .]*(?:\.|$)/i;
/** What Windows cuts off the end of a name, so that two names become the same. */
const cutOff = /[. ]$/;
// oxlint-disable-next-line no-control-regex -- those are what it looks for
const forbidden = /[<>:"/\\|?*\u0000-\u001f\u007f]/;

/** Whether a file can have this name on every system that the host runs on: what one host stored, another can read. */
export const isPortableName = (name: string): boolean =>
  name !== '' && !reserved.test(name) && !cutOff.test(name) && !forbidden.test(name) && name.isWellFormed();
