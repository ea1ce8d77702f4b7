const int = '[0-9]+';
const decimal = '(?:[0-9]+\\.[0-9]*|\\.[0-9]+)';
const float = `(?:[0-9]+[eE][+\\-]?[0-9]+|${decimal}(?:[eE][+\\-]?[0-9]+)?)`;
const number = `(?:${float}|${int})`;

/** The terminals of Lark's module `common`, as regular expressions. */
export const commonTerminals: Readonly<Record<string, string>> = {
  DIGIT: '[0-9]',
  HEXDIGIT: '[0-9a-fA-F]',
  INT: int,
  SIGNED_INT: `[+\\-]?${int}`,
  DECIMAL: decimal,
  FLOAT: float,
  SIGNED_FLOAT: `[+\\-]?${float}`,
  NUMBER: number,
  SIGNED_NUMBER: `[+\\-]?${number}`,
  ESCAPED_STRING: '"(?:[^"\\\\\\n]|\\\\.)*"',
  LCASE_LETTER: '[a-z]',
  UCASE_LETTER: '[A-Z]',
  LETTER: '[a-zA-Z]',
  WORD: '[a-zA-Z]+',
  CNAME: '[a-zA-Z_][a-zA-Z0-9_]*',
  WS_INLINE: '[ \\t]+',
  WS: '[ \\t\\f\\r\\n]+',
  CR: '\\r',
  LF: '\\n',
  NEWLINE: '(?:\\r?\\n)+',
  SH_COMMENT: '#[^\\n]*',
  CPP_COMMENT: '\\/\\/[^\\n]*',
  SQL_COMMENT: '--[^\\n]*',
};
