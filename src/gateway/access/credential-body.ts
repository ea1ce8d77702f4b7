import { z } from 'zod';
import { isRecord, type Json } from '../../util/json.ts';
import type { Violation } from '../../http/error.ts';
import type { ByokProvider } from '../config/types.ts';
import { invalidRequest } from '../../wires/core/error.ts';
import { AddressRefused, vettedBase } from '../upstream/vetting.ts';

/** What a caller wants to have stored. */
export interface GivenCredential {
  readonly apiKey: string;
  /** Of a cloud resource, without `basePath`. */
  readonly baseUrl: string | undefined;
  /** What the provider is asked at. */
  readonly askedUrl: string;
}

const longestKey = 8192;
const longestUrl = 2048;
/** It goes into a header: printable ASCII in one piece. */
const keyForm = /^[\x21-\x7e]+$/;

/** For the document: what is wrong is told by `credentialBody`, which knows the provider. */
export const credentialRequest = z
  .object({
    api_key: z.string().max(longestKey).regex(keyForm).describe("The provider's key."),
    base_url: z
      .string()
      .max(longestUrl)
      .nullish()
      .describe('Of your resource, of a provider that has no URL for all of its customers.'),
  })
  .meta({ id: 'CredentialRequest' });

/** What is shown of one that is stored. */
export const storedCredential = z
  .object({
    provider: z.string(),
    status: z.enum(['active', 'rejected']),
    last4: z.string(),
    base_url: z.string().optional(),
    created_at: z.string(),
  })
  .meta({ id: 'Credential' });

/** The body of `PUT /v1/keys/{provider}`. @throws WireError 400 with all that is wrong with it */
export function credentialBody(body: unknown, provider: ByokProvider): GivenCredential {
  const given = membersOf(body);
  const violations: Violation[] = [];
  const apiKey = given['api_key'];
  const wrongKey = keyFault(apiKey);
  if (wrongKey !== undefined) violations.push({ path: 'api_key', message: wrongKey });

  let [baseUrl, askedUrl]: [string | undefined, string] = [undefined, provider.baseUrl ?? ''];
  const wanted = given['base_url'];
  if (provider.baseUrl !== undefined) {
    if (wanted !== undefined && wanted !== null)
      violations.push({
        path: 'base_url',
        message: `'${provider.id}' has a URL of its own: leave base_url out`,
      });
  } else {
    const { hostSuffixes, basePath } = provider;
    const checked = checkedUrl(wanted, { mode: 'public', hostSuffixes, basePath });
    if ('message' in checked) violations.push({ path: 'base_url', message: checked.message });
    else [baseUrl, askedUrl] = [checked.url.origin, text(checked.url)];
  }
  if (violations.length > 0) throw refused(violations);
  return { apiKey: apiKey as string, baseUrl, askedUrl };
}

/** What is registered at the command line. @throws WireError 400 likewise */
export function registeredEndpoint(given: { readonly apiKey?: string; readonly baseUrl: string }): {
  readonly apiKey: string;
  readonly baseUrl: string;
} {
  const violations: Violation[] = [];
  const wrongKey = given.apiKey === undefined ? undefined : keyFault(given.apiKey);
  if (wrongKey !== undefined) violations.push({ path: 'api_key', message: wrongKey });
  const checked = checkedUrl(given.baseUrl, { mode: 'registered' });
  if ('message' in checked) violations.push({ path: 'base_url', message: checked.message });
  if (violations.length > 0 || 'message' in checked) throw refused(violations);
  return { apiKey: given.apiKey ?? '', baseUrl: text(checked.url) };
}

function membersOf(body: unknown): Json {
  if (isRecord(body)) return body;
  throw invalidRequest('The body must be a JSON object: {"api_key": "..."}.', {
    violations: [{ path: '', message: 'expected a JSON object' }],
  });
}

/** Says nothing of what it is. */
function keyFault(key: unknown): string | undefined {
  if (key === undefined) return "is missing: the provider's key";
  if (typeof key !== 'string')
    return `expected a string, got ${Array.isArray(key) ? 'an array' : key === null ? 'null' : `a ${typeof key}`}`;
  if (key === '') return "is empty: the provider's key";
  if (key.length > longestKey)
    return `has ${key.length} characters, more than the ${longestKey} that a key may have`;
  if (!keyForm.test(key)) return 'holds spaces, line breaks or characters beyond ASCII, which no key has';
  return undefined;
}

function checkedUrl(
  value: unknown,
  rules: Parameters<typeof vettedBase>[1],
): { readonly url: URL } | { readonly message: string } {
  if (value === undefined || value === null) {
    const example = rules.hostSuffixes?.[0] ?? '.example';
    return { message: `is missing: the URL of your resource, as https://NAME${example}` };
  }
  if (typeof value !== 'string') return { message: `expected a string, got a ${typeof value}` };
  if (value.length > longestUrl)
    return { message: `has ${value.length} characters, more than ${longestUrl}` };
  try {
    return { url: vettedBase(value, rules) };
  } catch (error) {
    if (error instanceof AddressRefused) return { message: error.message.replace(/^It /, 'it ') };
    throw error;
  }
}

/** Without a slash at its end. */
const text = (url: URL): string => url.href.replace(/\/+$/, '');

function refused(violations: readonly Violation[]) {
  const told = violations.map(({ path, message }) => `${path}: ${message.replace(/\.$/, '')}`).join('; ');
  const [first] = violations;
  return invalidRequest(`The credential cannot be stored: ${told}.`, {
    violations,
    ...(first ? { param: first.path } : {}),
  });
}
