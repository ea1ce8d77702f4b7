import type { Selectable } from 'kysely';
import type { Store, Tables } from '../../store/index.ts';
import { AgentError } from '../errors.ts';
import type { AgentStore, Toolbox } from '../services.ts';
import type { BuiltinWorkflow, EnsembleRecord } from '../shapes/ensemble.ts';
import type { Consent, LintReport } from '../shapes/lint-report.ts';
import type { BuiltinWorkflows } from './builtin-workflows.ts';
import { type Ensemble, reservedNames } from './definition/ensemble.ts';
import { type LintResult, lintEnsemble } from './definition/lint-ensemble.ts';
import { computeSourceDigest } from './source-digest.ts';
import { stampOrigin } from './stamp-origin.ts';

/** Thrown for a source with lint errors, which is not stored. */
export class LintError extends Error {
  readonly report: LintReport;
  constructor(report: LintReport) {
    super(report.errors[0]?.message ?? 'the workflow does not lint');
    this.name = 'LintError';
    this.report = report;
  }
}

interface EnsemblesOptions {
  readonly store: Store;
  readonly builtins: BuiltinWorkflows;
  readonly toolbox: Pick<Toolbox, 'catalog'>;
  readonly agents: AgentStore;
  /** Whether the operator allows running a workflow by this name. */
  readonly isEnabled: (name: string) => boolean;
}

/** A workflow that can be started. */
export interface RunnableWorkflow {
  readonly name: string;
  readonly source: string;
  readonly digest: string;
}

type Row = Selectable<Tables['workflows']>;

/** Stored workflows. Sources are stored byte for byte, and stay even if a newer host finds errors in them. */
export class Ensembles {
  readonly #options: EnsemblesOptions;

  constructor(options: EnsemblesOptions) {
    this.#options = options;
  }

  async list(): Promise<EnsembleRecord[]> {
    const { store } = this.#options;
    const rows = await store.read((db) => db.selectFrom('workflows').selectAll().orderBy('name').execute());
    return rows.map((row) => this.#toRecord(row));
  }

  /** @throws AgentError not_found */
  async get(name: string): Promise<EnsembleRecord> {
    const row = await this.#findRow(name);
    if (row === undefined) throw workflowNotFound();
    return this.#toRecord(row);
  }

  /** The workflow to run by this name: a stored one, or else a built-in; undefined when it is not enabled. */
  async findRunnable(name: string): Promise<RunnableWorkflow | undefined> {
    if (!this.#options.isEnabled(name)) return undefined;
    const runnable = (await this.#findRow(name)) ?? this.#options.builtins.get(name);
    return runnable && { name, source: runnable.source, digest: runnable.digest };
  }

  async builtins(): Promise<BuiltinWorkflow[]> {
    const { builtins, toolbox, isEnabled, store } = this.#options;
    return builtins.list(await toolbox.catalog(), isEnabled, store.now());
  }

  /** @throws LintError; AgentError conflict */
  async create(source: string, by: string): Promise<EnsembleRecord> {
    const { ensemble } = await this.#lintOrThrow(source);
    return this.#insertEnsemble(source, ensemble, 'workflow.create', by);
  }

  /** @throws LintError, also when the source has another name */
  async put(name: string, source: string, by: string): Promise<EnsembleRecord> {
    const { store } = this.#options;
    const { ensemble } = await this.#lintOrThrow(source, name);
    const row = toRow(source, ensemble, store.time());
    const { name: _, created_at: __, ...changedColumns } = row;
    const stored = await store.transaction(async (tx) => {
      const written = await tx
        .insertInto('workflows')
        .values(row)
        .onConflict((conflict) => conflict.column('name').doUpdateSet(changedColumns))
        .returningAll()
        .executeTakeFirstOrThrow();
      await store.appendAct(tx, {
        verb: 'workflow.put',
        target: name,
        by,
        outcome: 'applied',
        details: details(row),
      });
      return written;
    });
    return this.#toRecord(stored);
  }

  /** @throws AgentError not_found */
  async delete(name: string, by: string): Promise<void> {
    const { store } = this.#options;
    await store.transaction(async (tx) => {
      const deleted = await tx
        .deleteFrom('workflows')
        .where('name', '=', name)
        .returningAll()
        .executeTakeFirst();
      if (deleted === undefined) throw workflowNotFound();
      await store.appendAct(tx, {
        verb: 'workflow.delete',
        target: name,
        by,
        outcome: 'applied',
        details: details(deleted),
      });
    });
  }

  /**
   * @param source linted instead of the stored source
   * @throws AgentError not_found when there is neither
   */
  async lint(name: string, source?: string): Promise<LintReport & { consent?: Consent }> {
    const { report, consent } = await this.#lint(source ?? (await this.get(name)).source);
    return consent === undefined ? report : { ...report, consent };
  }

  /** @throws AgentError not_found: no such built-in; conflict: the target is stored already */
  async fork(builtin: string, as: string | undefined, by: string): Promise<EnsembleRecord> {
    const original = this.#options.builtins.get(builtin);
    if (original === undefined) {
      const message = `There is no such built-in workflow; GET /agent/v1/workflows/builtins lists them.`;
      throw new AgentError('not_found', 'unknown_builtin', message);
    }
    const name = as ?? builtin;
    if (reservedNames.includes(name)) {
      const message = `must not be one of ${reservedNames.join(', ')}`;
      throw new AgentError('invalid', 'invalid_value', `as: ${message}.`, {
        faults: [{ path: 'as', message }],
      });
    }
    const source = stampOrigin(original.source, { name, origin: original.origin });
    const { ensemble } = await this.#lintOrThrow(source);
    return this.#insertEnsemble(source, ensemble, 'workflow.fork', by);
  }

  async #insertEnsemble(
    source: string,
    ensemble: Ensemble,
    verb: string,
    by: string,
  ): Promise<EnsembleRecord> {
    const { store } = this.#options;
    const row = toRow(source, ensemble, store.time());
    await store.transaction(async (tx) => {
      const added = await tx
        .insertInto('workflows')
        .values(row)
        .onConflict((conflict) => conflict.column('name').doNothing())
        .returning('name')
        .executeTakeFirst();
      if (added === undefined) {
        const message = `There is a workflow '${row.name}' already; PUT /agent/v1/workflows/${row.name} replaces it.`;
        throw new AgentError('conflict', 'workflow_exists', message);
      }
      await store.appendAct(tx, { verb, target: row.name, by, outcome: 'applied', details: details(row) });
    });
    return this.#toRecord(row);
  }

  /** @param name name that the source must have */
  async #lintOrThrow(source: string, name?: string): Promise<{ ensemble: Ensemble }> {
    const { report, ensemble } = await this.#lint(source, name);
    if (ensemble === undefined) throw new LintError(report);
    return { ensemble };
  }

  async #lint(source: string, name?: string): Promise<LintResult> {
    const { toolbox, agents, store, builtins } = this.#options;
    return lintEnsemble(source, {
      tools: await toolbox.catalog(),
      agent: (one) =>
        agents.get(one).catch((error: unknown) => {
          if (error instanceof AgentError && error.kind === 'not_found') return undefined;
          throw error;
        }),
      workflow: async (one) => ((await this.#findRow(one)) ?? builtins.get(one))?.source,
      now: store.now(),
      ...(name === undefined ? {} : { name }),
    });
  }

  #findRow(name: string): Promise<Row | undefined> {
    const query = this.#options.store.read((db) =>
      db.selectFrom('workflows').selectAll().where('name', '=', name).executeTakeFirst(),
    );
    return query;
  }

  #toRecord({ origin, version, description, ...row }: Row): EnsembleRecord {
    return {
      ...row,
      enabled: this.#options.isEnabled(row.name),
      ...(origin === null ? {} : { origin }),
      ...(version === null ? {} : { version }),
      ...(description === null ? {} : { description }),
    };
  }
}

const workflowNotFound = () =>
  new AgentError(
    'not_found',
    'unknown_workflow',
    'There is no stored workflow of this name; GET /agent/v1/workflows lists them.',
  );

function toRow(source: string, ensemble: Ensemble, time: string): Row {
  const { name, origin = null, version = null, description = null } = ensemble;
  return {
    name,
    source,
    digest: computeSourceDigest(source),
    origin,
    version,
    description,
    created_at: time,
    updated_at: time,
  };
}

const details = ({ digest }: Pick<Row, 'digest'>) => JSON.stringify({ digest });
