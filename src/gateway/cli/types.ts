import type { Terminal } from '../../cli/progress.ts';
import type { SignalSource } from '../../terminal/stop-signals.ts';
import type { Rotation } from '../access/rotate.ts';
import type { CredentialStore } from '../access/types.ts';
import type { GatewayConfig } from '../config/types.ts';
import type { Ledger } from '../ledger/types.ts';

export interface ServeOptions {
  readonly config: GatewayConfig;
  /** `sqlite:PATH` or `postgres://...`. */
  readonly database: string;
  readonly host: string;
  /** 0: a free one. */
  readonly port: number;
  /** What an operator should hear of. */
  /** Says whether telemetry is exported, and where to. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly version: string;
  readonly onNotice: (message: string) => void;
}

export interface RunningGateway {
  /** The one that was taken. */
  readonly port: number;
  /**
   * Takes no more requests, lets those under way come to their end for as long as this, then cuts them, settles and closes
   * the database. Never rejects.
   */
  stop(graceMs: number): Promise<void>;
}

/** Resolves when the port is taken and the database is there. */
export type ServeGateway = (options: ServeOptions) => Promise<RunningGateway>;

/** The credentials of accounts, as commands change them. */
export interface CredentialAdmin extends Pick<CredentialStore, 'list' | 'remove'> {
  /** @param name `kind:slug` */
  register(
    accountId: string,
    name: string,
    endpoint: { readonly apiKey?: string; readonly baseUrl: string },
  ): Promise<void>;
  rotate(): Promise<Rotation>;
}

/** A gateway's database, for commands. */
export interface OpenBooks {
  readonly ledger: Ledger;
  readonly credentials: CredentialAdmin;
  close(): Promise<void>;
}

export interface OpenBooksOptions {
  readonly database: string;
  readonly masterKeys: GatewayConfig['masterKeys'];
  readonly onNotice: (message: string) => void;
}

/** What the program gets from the process; only `gateway.ts` makes the real one. */
export interface GatewayWorld {
  /** Without the program's own name. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
  readonly version: () => Promise<string>;
  readonly stdout: Pick<Terminal, 'write'>;
  readonly stderr: Pick<Terminal, 'write'>;
  readonly signals: SignalSource;
  readonly exit: (code: number) => void;
  readonly now: () => Date;
  readonly serve: ServeGateway;
  readonly openBooks: (options: OpenBooksOptions) => Promise<OpenBooks>;
}
