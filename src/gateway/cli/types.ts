import type { z } from 'zod';
import type { Terminal } from '../../cli/progress.ts';
import type { SignalSource } from '../../terminal/stop-signals.ts';
import type { RotationResult } from '../access/master-key-rotation.ts';
import type { CredentialStore } from '../access/types.ts';
import type { GatewayConfig } from '../config/types.ts';
import type { AdminTokens } from '../operator/admin-tokens.ts';
import type { requestRecordSchema } from '../operator/request-bodies.ts';
import type { KeyChanges, Ledger, NewKey, ShownKey } from '../ledger/types.ts';
import type { PageFiles } from '../../http/static-files.ts';
import type { NoticeHandler } from '../../tracing/index.ts';
import type { RequestLog } from '../serve/request-log.ts';

export interface ServeOptions {
  readonly config: GatewayConfig;
  /** Reads the configuration again. Rejects with `UsageError` with every fault. */
  readonly readConfig: () => Promise<GatewayConfig>;
  /** `sqlite:PATH` or `postgres://...`. */
  readonly database: string;
  readonly host: string;
  /** 0: a free port. */
  readonly port: number;
  /** Environment variables, for the telemetry settings. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly version: string;
  /** The operator listener; undefined: none. */
  readonly admin:
    | { readonly host: string; readonly port: number; readonly tokens: AdminTokens | undefined }
    | undefined;
  /** The web build, with the operator's page. */
  readonly pages?: PageFiles | undefined;
  /** The log of requests; undefined: none. */
  readonly log: RequestLog | undefined;
  readonly otlpEndpoint: string | undefined;
  /** Called with messages for the operator. */
  readonly onNotice: NoticeHandler;
}

export interface RunningGateway {
  /** The bound port. */
  readonly port: number;
  /** The bound port of the operator listener. */
  readonly adminPort?: number | undefined;
  /** Reads the configuration again and replaces it at once, or not at all; reports what it did. */
  reload(): Promise<unknown>;
  /**
   * Stops accepting requests, gives running ones `graceMs` to finish, then aborts and settles them and closes the database.
   * Never rejects.
   */
  stop(graceMs: number): Promise<void>;
}

/** Resolves when the port is bound and the database is open. */
export type ServeGateway = (options: ServeOptions) => Promise<RunningGateway>;

/** Credential operations for commands. */
export interface CredentialAdmin extends Pick<CredentialStore, 'list' | 'remove'> {
  /** @param name `kind:slug` */
  register(
    accountId: string,
    name: string,
    endpoint: { readonly apiKey?: string; readonly baseUrl: string },
  ): Promise<void>;
  rotate(): Promise<RotationResult>;
}

/** What commands ask of a ledger: the database's, or that of a running gateway, by its admin API. */
export interface OperatorLedger
  extends Pick<
    Ledger,
    | 'accounts'
    | 'createAccount'
    | 'credit'
    | 'updateAccount'
    | 'setAccountDisabled'
    | 'setBudget'
    | 'removeBudget'
    | 'budgets'
    | 'usage'
    | 'changes'
  > {
  createKey(options: NewKey): Promise<{ row: ShownKey; secret: string }>;
  updateKey(id: string, changes: KeyChanges): Promise<ShownKey>;
  setKeyDisabled(id: string, isDisabled: boolean): Promise<ShownKey>;
  revokeKey(id: string): Promise<ShownKey>;
  keys(account?: string): Promise<ShownKey[]>;
}

/** What a command of an operator works on. */
export interface OperatorBooks {
  readonly ledger: OperatorLedger;
  /** Where the accounts are, for messages about missing ones. */
  readonly place: string;
  /** A request of any key. @throws LedgerError where there is none */
  readonly requestRecord: (requestId: string) => Promise<z.infer<typeof requestRecordSchema>>;
  /** Ids and aliases of the models of the configuration; empty where there is none. */
  readonly modelNames: () => Promise<readonly string[]>;
  /** Removes stored answers. @param accountId undefined: of all accounts @returns how many */
  readonly clearCache: (accountId: string | undefined) => Promise<number>;
}

/** The open database of a gateway, for commands. */
export interface GatewayDatabase {
  readonly ledger: Ledger;
  readonly credentials: CredentialAdmin;
  /** Removes stored answers. @param accountId undefined: of all accounts @returns how many */
  clearCache(accountId: string | undefined): Promise<number>;
  close(): Promise<void>;
}

export interface GatewayDatabaseOptions {
  readonly database: string;
  readonly masterKeys: GatewayConfig['masterKeys'];
  readonly onNotice: (message: string) => void;
}

/** The program's environment. Only `gateway.ts` creates the real one; tests create others. */
export interface CliEnvironment {
  /** Arguments, without the program name. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
  readonly version: () => Promise<string>;
  readonly stdout: Pick<Terminal, 'write'>;
  readonly stderr: Pick<Terminal, 'write'>;
  readonly signals: SignalSource;
  /** Whether the process has a controlling terminal. */
  readonly hasTerminal: boolean;
  readonly exit: (code: number) => void;
  readonly now: () => Date;
  readonly serve: ServeGateway;
  readonly openDatabase: (options: GatewayDatabaseOptions) => Promise<GatewayDatabase>;
}
