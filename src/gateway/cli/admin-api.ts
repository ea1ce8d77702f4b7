import { z } from 'zod';
import { HostError } from '../../host-client/errors.ts';
import { type HostAddress, type HostHints, type HostRequest, sendRequest } from '../../host-client/http.ts';
import { LedgerError, ledgerErrorCodes } from '../ledger/errors.ts';

const adminPrefix = '/admin/v1';
const hints: HostHints = {
  token: "--admin-token-file FILE or LATHE_GATEWAY_ADMIN_TOKEN names the operator's token",
  start: '--admin-url names the operator listener of a gateway, which `serve` opens with --admin-port',
  server: "gateway's operator listener",
  unavailable: (_, message) => message,
};

export const listSchema = <Schema extends z.ZodType>(schema: Schema) => z.object({ data: z.array(schema) });

/**
 * The admin API of a running gateway. Refusals of the ledger reject with `LedgerError`, as those of the database do; everything
 * else with `HostError`.
 */
export class AdminApi {
  readonly #address: HostAddress;

  constructor(address: HostAddress) {
    this.#address = address;
  }

  /** Sends a request. @param path below the prefix of the API @returns the answer, if the schema accepts it */
  async send<Schema extends z.ZodType>(
    schema: Schema,
    method: HostRequest['method'],
    path: string,
    body?: unknown,
  ): Promise<z.infer<Schema>> {
    let text: string;
    try {
      const request = { method, path: `${adminPrefix}${path}`, body, hasTimeout: true };
      text = await sendRequest(this.#address, hints, request);
    } catch (error) {
      const code = error instanceof HostError && ledgerErrorCodes.find((one) => one === error.code);
      if (code) throw new LedgerError(code, error.message);
      throw error;
    }
    const { success, data } = schema.safeParse(parseJson(text));
    if (success) return data;
    throw new HostError(
      'not_a_host',
      `the answer of ${this.#address.url} to ${method} ${adminPrefix}${path} is not that of a gateway of this version`,
    );
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

export const pathOf = (noun: string, id: string): string => `/${noun}/${encodeURIComponent(id)}`;

export function queryOf(parameters: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(parameters).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value]],
  );
  return given.length === 0 ? '' : `?${new URLSearchParams(given).toString()}`;
}
