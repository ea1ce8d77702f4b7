import type { ByokProvider } from '../config/types.ts';
import { WireError } from '../../wires/core/error.ts';
import { providerHeaders } from '../../wires/provider-headers.ts';
import { providerWireOf } from '../../wires/providers.ts';
import { AddressRefusedError, type UrlRules } from '../upstream/address-vetting.ts';
import type { CredentialInput } from './credential-body.ts';

/** Sends a GET as `vettedStatus` does and returns the status of the answer. Rejects when there is no answer. */
export type StatusProbe = (
  url: string,
  options: UrlRules & { readonly name: string; readonly headers: Readonly<Record<string, string>> },
) => Promise<{ readonly status: number }>;

/**
 * Verifies a key with its provider by listing the models, which every provider does free of charge.
 * @throws WireError 422 when the provider rejects the key; 422 or 502 when it gives no clear answer
 */
export async function verifyCredential(
  probe: StatusProbe,
  provider: ByokProvider,
  credential: CredentialInput,
): Promise<void> {
  const { id, wire, hostSuffixes } = provider;
  const isCloudResource = provider.baseUrl === undefined;
  const headers = providerHeaders(wire, { apiKey: credential.apiKey, isCloudResource });
  let status: number;
  try {
    const mode = isCloudResource ? 'public' : 'house';
    ({ status } = await probe(`${credential.verificationUrl}/models`, {
      name: id,
      mode,
      hostSuffixes,
      headers,
    }));
  } catch (error) {
    // The reason is not passed on, because it would reveal details of the operator's network.
    const isAddressRefused = isCloudResource && error instanceof AddressRefusedError;
    throw unverifiedError(
      id,
      isCloudResource,
      isAddressRefused ? error.message.replace(/\.$/, '') : 'it could not be reached',
    );
  }
  if (status >= 200 && status < 300) return;
  if ([401, 403, ...(providerWireOf(wire).wrongKeyStatuses ?? [])].includes(status))
    throw new WireError(
      422,
      'upstream_error',
      `${id} rejects this key (status ${status}), so nothing was stored. Check that the key is whole, active and allowed to list models.`,
      { code: 'credential_rejected', param: 'api_key' },
    );
  throw unverifiedError(id, isCloudResource, `it answered with status ${status}`);
}

/** @param isCallersUrl whether the caller chose the URL; otherwise the operator did */
function unverifiedError(id: string, isCallersUrl: boolean, reason: string): WireError {
  const advice = isCallersUrl ? 'Check base_url, or try again later.' : 'Try again later.';
  return new WireError(
    isCallersUrl ? 422 : 502,
    'upstream_error',
    `This key could not be verified with ${id}: ${reason}. Nothing was stored. ${advice}`,
    { code: 'credential_unverified', ...(isCallersUrl ? { param: 'base_url' } : {}) },
  );
}
