/** Whether a name matches a glob of grants. `*` matches any characters; nothing else is special. */
export function globMatches(glob: string, name: string): boolean {
  let at = 0;
  let inGlob = 0;
  // Position to backtrack to when the text after the last star does not match.
  let star = -1;
  let starAt = 0;
  while (at < name.length) {
    if (glob[inGlob] === '*') {
      star = inGlob;
      starAt = at;
      inGlob += 1;
    } else if (glob[inGlob] === name[at]) {
      inGlob += 1;
      at += 1;
    } else if (star >= 0) {
      inGlob = star + 1;
      starAt += 1;
      at = starAt;
    } else return false;
  }
  while (glob[inGlob] === '*') inGlob += 1;
  return inGlob === glob.length;
}

export const matchesAny = (globs: readonly string[], name: string): boolean =>
  globs.some((glob) => globMatches(glob, name));
