import { z } from 'zod';
import { isRecord, type Json } from '../../util/json.ts';
import type { Violation } from '../../http/error.ts';
import type { ByokProvider } from '../config/types.ts';
import { invalidRequest } from '../../wires/core/error.ts';
import { AddressRefused, vettedBase } from '../upstream/vetting.ts';

/** A credential that a caller wants to store. */
export interface GivenCredential {
  readonly apiKey: string;
  /** URL of a cloud resource, without `basePath`. */
  readonly baseUrl: string | undefined;
  /** The base URL at which the credential is verified. */
  readonly askedUrl: string;
}

const longestKey = 8192;
const longestUrl = 2048;
/** Keys are sent in a header: printable ASCII without spaces. */
const keyForm = /^[\x21-\x7e]+$/;

/** Request schema for the OpenAPI document. `parseCredentialBody` does the validation, which depends on the provider. */
export const credentialRequest = z
  .object({
    api_key: z.string().max(longestKey).regex(keyForm).describe("The provider's key."),
    base_url: z
      .string()
      .max(longestUrl)
      .nullish()
      .describe('The URL of your resource, for providers where every customer has one.'),
  })
  .meta({ id: 'CredentialRequest' });

/** The public part of a stored credential. */
export const storedCredential = z
  .object({
    provider: z.string(),
    status: z.enum(['active', 'rejected']),
    last4: z.string(),
    base_url: z.string().optional(),
    created_at: z.string(),
  })
  .meta({ id: 'Credential' });

/** Validates the body of `PUT /v1/keys/{provider}`. @throws WireError 400 with every violation */
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

/** Validates an endpoint that is registered on the command line. @throws WireError 400 with every violation */
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

/** What is wrong with a key, without its value. */
function keyFault(key: unknown): string | undefined {
  if (key === undefined) return "is missing: the provider's key";
  if (typeof key !== 'string')
    return `expected a string, got ${Array.isArray(key) ? 'an array' : key === null ? 'null' : `a ${typeof key}`}`;
  if (key === '') return "is empty: the provider's key";
  if (key.length > longestKey)
    return `has ${key.length} characters, more than the ${longestKey} that a key may have`;
  if (!keyForm.test(key)) return 'contains spaces, line breaks or characters outside ASCII, which no key has';
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

/** The URL without trailing slashes. */
const text = (url: URL): string => url.href.replace(/\/+$/, '');

function refused(violations: readonly Violation[]) {
  const told = violations.map(({ path, message }) => `${path}: ${message.replace(/\.$/, '')}`).join('; ');
  const [first] = violations;
  return invalidRequest(`The credential cannot be stored: ${told}.`, {
    violations,
    ...(first ? { param: first.path } : {}),
  });
}
