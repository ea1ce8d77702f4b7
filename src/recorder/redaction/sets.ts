import { secretKinds } from '../../signing/secret.ts';
import { base64Fragments } from './base64.ts';

/**
 * Built-in pattern sets that policies can name. They are JavaScript regular expressions, which are about thirty times
 * as fast as RE2JS. Each must take linear time on every text: a repetition before an optional or failing part is
 * bounded, or can start at only one position of a run.
 */
export interface RedactionSet {
  /** A text without this substring has no match. */
  readonly needs?: string;
  readonly patterns: readonly RegExp[];
  /** Names of attributes whose values are never stored. */
  readonly names?: RegExp;
}

/** Private keys in PEM and PGP format. Without an end marker the rest of the text is matched. */
const privateKey =
  /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|$)/g;

/** JSON Web Tokens, signed or encrypted, also truncated ones. */
const jsonWebToken = /(?<![\w-])(?=[\w-]*eyJ)[\w-]+(?:\.[\w-]{8,}){1,4}/g;

/**
 * Secrets minted by a host, plain and in base64 at any offset. They are redacted whatever the policy, by pattern,
 * because the host stores only hashes of most of them.
 */
export const mintedSecrets: readonly RegExp[] = [
  new RegExp(`lathe_(?:${secretKinds.join('|')})_[\\w-]{43}`, 'g'),
  // 43 characters are 57 base64 characters, plus a partial one on each side.
  new RegExp(
    `(?:${secretKinds.flatMap((kind) => base64Fragments(Buffer.from(`lathe_${kind}_`))).join('|')})[\\w+/-]{57,59}`,
    'g',
  ),
];

/** Common key prefixes of many services. In JSON the start of a line follows `\n`. */
const servicesKey = /(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt]))(?:sk|pk|rk)[-_][\w-]{16,}/g;
/** Unambiguous key formats, matched anywhere. */
const markedKey =
  /(?:AKIA|ASIA)[0-9A-Z]{16}|whsec_[\w+/=-]{16,}|gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|gl(?:pat|ptt|rt|dt)-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,}|AIza[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{16,}|hf_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{20,}|dop_v1_[a-f0-9]{20,}|SG\.[\w-]{16,64}\.[\w-]{16,}|lathe_[a-z]{1,20}_[\w-]{16,}/g;

const authorization =
  /\b(?:bearer\s{1,8}[\w.~+/=-]{8,}|authorization["'\\]{0,4}\s{0,8}[:=]\s{0,8}["'\\]{0,4}(?:\w{1,20}\s{1,8})?[^\s"'\\,;]{8,})/gi;

/** `postgres://user:password@`, including the `@`. */
const connection = /[a-z][a-z0-9+.-]{1,30}:\/\/[^\s:/@"'<>]{0,128}:[^\s"'<>]{1,256}@/gi;

/** `password=...` in many spellings. */
const password =
  /(?:passw(?:or)?d|passphrase|\bpwd)["'\\]{0,4}\s{0,4}(?:=>|:=|[:=])\s{0,4}["'\\]{0,4}[^\s"'\\,;&]{4,}/gi;
/** Assignments of other secrets. A value without a digit is taken for an ordinary word. */
const assigned =
  /(?:api[_-]?key|secret(?:[_-]?key)?|[_-]token|\btoken|private[_-]?key|access[_-]?key|account[_-]?key|credentials?)["'\\]{0,4}\s{0,4}(?:=>|:=|[:=])\s{0,4}["'\\]{0,4}(?=[^\s"'\\,;&]{0,200}\d)[^\s"'\\,;&]{8,}/gi;

const email = /[\p{L}\p{N}.!#$%&'*+/=?^_`{|}~-]{1,64}@(?:[\p{L}\p{N}-]{1,63}\.){1,8}\p{L}{2,63}/gu;

export const redactionSets: Readonly<Record<string, RedactionSet>> = {
  '@credentials': {
    patterns: [
      privateKey,
      jsonWebToken,
      servicesKey,
      markedKey,
      authorization,
      connection,
      password,
      assigned,
    ],
    names:
      /^(?:.{0,40}[_-])?(?:authorization|cookie|set-cookie|password|passwd|passphrase|pwd|secret|api[_-]?key|private[_-]?key|access[_-]?key|secret[_-]?key|access[_-]?token|refresh[_-]?token|auth[_-]?token|bearer|credentials?)$/i,
  },
  '@emails': { needs: '@', patterns: [email] },
};
