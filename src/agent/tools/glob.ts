/** Whether a name matches a glob of grants. `*` matches any characters; nothing else is special. */
export function globMatches(glob: string, name: string): boolean {
  let nameIndex = 0;
  let globIndex = 0;
  // Position to backtrack to when the text after the last star does not match.
  let starGlobIndex = -1;
  let starNameIndex = 0;
  while (nameIndex < name.length) {
    if (glob[globIndex] === '*') {
      starGlobIndex = globIndex;
      starNameIndex = nameIndex;
      globIndex += 1;
    } else if (glob[globIndex] === name[nameIndex]) {
      globIndex += 1;
      nameIndex += 1;
    } else if (starGlobIndex >= 0) {
      globIndex = starGlobIndex + 1;
      starNameIndex += 1;
      nameIndex = starNameIndex;
    } else return false;
  }
  while (glob[globIndex] === '*') globIndex += 1;
  return globIndex === glob.length;
}

export const matchesAny = (globs: readonly string[], name: string): boolean =>
  globs.some((glob) => globMatches(glob, name));
