/** POSIX and Oniguruma class names, as JavaScript regular expressions in `v` mode. */
const posixClasses: Readonly<Record<string, string>> = {
  any: '[^]',
  ascii: '\\p{ASCII}',
  alpha: '\\p{Alphabetic}',
  digit: '\\p{Nd}',
  alnum: '[\\p{Alphabetic}\\p{Nd}]',
  word: '[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}²³¹¼½¾]',
  space: '\\p{White_Space}',
  blank: '[\\p{Zs}\\t]',
  upper: '\\p{Uppercase}',
  lower: '\\p{Lowercase}',
  punct: '[\\p{P}$+<=>\\^`\\|~]',
  cntrl: '\\p{Cc}',
  xdigit: '[0-9A-Fa-f]',
  graph: '[^\\p{White_Space}\\p{Cc}\\p{Cn}\\p{Cs}]',
  print: '[[^\\p{White_Space}\\p{Cc}\\p{Cn}\\p{Cs}]\\p{Zs}]',
};

/** Converts a Unicode property, script or POSIX class to an item of a bracketed class; undefined when unknown. */
export function findPropertyClass(name: string): string | undefined {
  const lowerCaseName = name.toLowerCase();
  if (Object.hasOwn(posixClasses, lowerCaseName)) return posixClasses[lowerCaseName];
  const capitalizedName = name.replaceAll(/(?:^|_)[a-z]/g, (letters) => letters.toUpperCase());
  const candidates = [name, capitalizedName, `Script=${name}`, `Script=${capitalizedName}`];
  return candidates.map((form) => `\\p{${form}}`).find(isValidProperty);
}

function isValidProperty(text: string): boolean {
  try {
    return new RegExp(text, 'v').unicodeSets;
  } catch {
    return false;
  }
}
