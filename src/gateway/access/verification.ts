import type { ByokProvider } from '../config/types.ts';
import { WireError } from '../../wires/core/error.ts';
import { providerHeaders } from '../upstream/credential-headers.ts';
import { AddressRefused, type UrlRules } from '../upstream/vetting.ts';
import type { GivenCredential } from './credential-body.ts';

/** Asks a provider, as `vettedGet` does; only the status of its answer is looked at. Rejects where there is none. */
export type Probe = (
  url: string,
  options: UrlRules & { readonly name: string; readonly headers: Readonly<Record<string, string>> },
) => Promise<{ readonly status: number }>;

/**
 * Whether a provider takes a key: every one of them lists its models to whoever has one, at no cost.
 * @throws WireError 422 where it refuses the key, 422 or 502 where it does not say
 */
export async function verify(probe: Probe, provider: ByokProvider, given: GivenCredential): Promise<void> {
  const { id, wire, hostSuffixes } = provider;
  const cloudResource = provider.baseUrl === undefined;
  const headers = providerHeaders(wire, { apiKey: given.apiKey, cloudResource });
  let status: number;
  try {
    const mode = cloudResource ? 'public' : 'house';
    ({ status } = await probe(`${given.askedUrl}/models`, { name: id, mode, hostSuffixes, headers }));
  } catch (error) {
    // No more than that: what went wrong would tell of our network.
    const refused = cloudResource && error instanceof AddressRefused;
    throw unasked(id, cloudResource, refused ? error.message.replace(/\.$/, '') : 'it could not be reached');
  }
  if (status >= 200 && status < 300) return;
  // Google answers an unknown key as it does a malformed request.
  if (status === 401 || status === 403 || (status === 400 && wire === 'google'))
    throw new WireError(
      422,
      'upstream_error',
      `${id} rejects this key (status ${status}), so nothing was stored. Check that the key is whole, active and allowed to list models.`,
      { code: 'credential_rejected', param: 'api_key' },
    );
  throw unasked(id, cloudResource, `it answered with status ${status}`);
}

/** @param byCaller the URL is the caller's to mend, as all others are the operator's */
function unasked(id: string, byCaller: boolean, why: string): WireError {
  const advice = byCaller ? 'Check base_url, or try again later.' : 'Try again later.';
  return new WireError(
    byCaller ? 422 : 502,
    'upstream_error',
    `${id} could not be asked whether it takes this key: ${why}. Nothing was stored. ${advice}`,
    { code: 'credential_unverified', ...(byCaller ? { param: 'base_url' } : {}) },
  );
}
