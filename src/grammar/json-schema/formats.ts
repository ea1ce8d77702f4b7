import type { Expression } from '../ebnf/expression.ts';
import { parseRegex } from '../regex/parse-regex.ts';

/**
 * Patterns of string formats. They match texts that every validator accepts, often not all of them. XGrammar compiles a
 * mask for each count of a wide class, so only lengths that a standard limits are limited: the labels of a host name.
 */
const patterns: Readonly<Record<string, string>> = (() => {
  const day =
    '((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))';
  const leapDay = '(\\d\\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29';
  const date = `(\\d{4}-${day}|${leapDay})`;
  const clock = '([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?';
  const zone = '(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)';
  const short = '[A-Za-z0-9]([A-Za-z0-9-]{0,18}[A-Za-z0-9])?';
  const hostname = `${short}(\\.${short}){0,3}`;
  const label = '[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?';
  const host = `${label}(\\.${label})*`;
  const byte = '(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
  const ipv4 = `${byte}(\\.${byte}){3}`;
  const group = '[0-9a-fA-F]{1,4}';
  const ipv6 = [
    `(${group}:){7}${group}`,
    ...Array.from({ length: 7 }, (_, left) => {
      const before = left === 0 ? '' : `${group}(:${group}){${left - 1}}`;
      return `${before}::(${group}(:${group}){0,${6 - left - (left === 6 ? 0 : 1)}})?`;
    }),
  ].join('|');
  const local = '[A-Za-z0-9_+-]+(\\.[A-Za-z0-9_+-]+)*';
  const path = "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
  const tail = `(\\?(${path}|[/?])*)?(#(${path}|[/?])*)?`;
  const authority = `(${host}|${ipv4})(:\\d{1,5})?`;
  const scheme = '[A-Za-z][A-Za-z0-9+.-]*';
  const uri = `${scheme}:(//${authority}(/${path}*)*|${path}+(/${path}*)*)${tail}`;
  const pointer = '(/([^~/]|~[01])*)*';
  const number = '\\d{1,9}';
  const time = `(T(${number}H(${number}M)?(${number}S)?|${number}M(${number}S)?|${number}S))`;
  return {
    date,
    time: `${clock}${zone}`,
    'iso-time': `${clock}${zone}`,
    'date-time': `${date}T${clock}${zone}`,
    'iso-date-time': `${date}T${clock}${zone}`,
    duration: `P(${number}W|${time}|(${number}Y(${number}M(${number}D)?)?|${number}M(${number}D)?|${number}D)${time}?)`,
    email: `${local}@${label}(\\.${label})+`,
    'idn-email': `${local}@${label}(\\.${label})+`,
    hostname,
    'idn-hostname': hostname,
    ipv4,
    ipv6,
    uuid: '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}',
    uri,
    iri: uri,
    url: `https?://${host}\\.[A-Za-z]{2,}(:\\d{2,5})?(/${path}*)*${tail}`,
    'uri-reference': `(${uri}|(/${path}+)+/?${tail}|${path.replaceAll(':', '')}+(/${path}*)*${tail})`,
    'iri-reference': `(${uri}|(/${path}+)+/?${tail}|${path.replaceAll(':', '')}+(/${path}*)*${tail})`,
    'json-pointer': pointer,
    'json-pointer-uri-fragment': "#(/([a-z0-9_!$&'()*+,;=@-]|~[01])*)*",
    'relative-json-pointer': `(0|[1-9]\\d{0,8})(#|${pointer})`,
    byte: '([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?',
  };
})();

/** String formats that a grammar cannot enforce. */
const unsupportedFormats = new Set(['regex', 'uri-template']);

/**
 * Finds the expression of a string format; undefined for unknown formats, which the standard tells validators to
 * ignore.
 */
export function findStringFormat(name: string): Expression | 'beyond' | undefined {
  if (unsupportedFormats.has(name)) return 'beyond';
  const pattern = Object.hasOwn(patterns, name) ? patterns[name] : undefined;
  return pattern === undefined ? undefined : parseRegex(pattern, 'whole');
}

/** OpenAPI's number formats. */
export const numberFormats: Readonly<Record<string, { isInteger: boolean; min?: number; max?: number }>> = {
  int32: { isInteger: true, min: -(2 ** 31), max: 2 ** 31 - 1 },
  int64: { isInteger: true },
};
