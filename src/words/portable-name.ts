/** Reserved device names of Windows, with any extension. */
const reservedPattern = /^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[\d¹²³])[ .]*(?:\.|$)/i;
/** Trailing characters that Windows removes, so that two names become equal. */
const trailingPattern = /[. ]$/;
// oxlint-disable-next-line no-control-regex -- control characters are forbidden in file names
const forbiddenPattern = /[<>:"/\\|?*\u0000-\u001f\u007f]/;

/** Whether a file can have this name on every supported operating system. */
export const isPortableName = (name: string): boolean =>
  name !== '' &&
  !reservedPattern.test(name) &&
  !trailingPattern.test(name) &&
  !forbiddenPattern.test(name) &&
  name.isWellFormed();
