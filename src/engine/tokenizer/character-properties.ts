/** POSIX and Oniguruma class names, as JavaScript regular expressions in `v` mode. */
const named: Readonly<Record<string, string>> = {
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
export function propertyClass(name: string): string | undefined {
  const plain = name.toLowerCase();
  if (Object.hasOwn(named, plain)) return named[plain];
  const capital = name.replaceAll(/(?:^|_)[a-z]/g, (letters) => letters.toUpperCase());
  const forms = [name, capital, `Script=${name}`, `Script=${capital}`];
  return forms.map((form) => `\\p{${form}}`).find(isValid);
}

function isValid(text: string): boolean {
  try {
    return new RegExp(text, 'v').unicodeSets;
  } catch {
    return false;
  }
}
