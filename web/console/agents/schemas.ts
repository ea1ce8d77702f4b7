import type { components } from '../../api/schema.d.ts';

/** Short names of the agent plane's schemas. */
type Schemas = components['schemas'];
export type AgentSpec = Schemas['AgentSpec'];
export type Session = Schemas['Session'];
export type Tool = Schemas['ToolCatalogEntry'];
export type TurnEvent = Schemas['TurnEvent'];
export type PendingChange = Schemas['PendingChange'];
export type PendingChangeDetail = Schemas['PendingChangeDetail'];
export type Act = Schemas['Act'];
export type Ensemble = Schemas['Ensemble'];
export type BuiltinWorkflow = Schemas['BuiltinWorkflow'];
export type LintReport = Schemas['LintReportWithConsent'];
export type Consent = Schemas['WorkflowConsent'];
export type RunDetail = Schemas['RunDetail'];
export type RunEvent = Schemas['RunEvent'];
export type WaitingOn = NonNullable<Session['waiting_on']>;

/** Gate of a suspended run. The OpenAPI document leaves its members open, because they differ by kind. */
export interface Gate {
  readonly kind?: WaitingOn;
  /** Absent for the entry gate of a workflow. */
  readonly step?: string;
  readonly since_at?: string;
  readonly message?: string;
  readonly until_at?: string;
  readonly schema?: Readonly<Record<string, unknown>>;
  readonly expr?: string;
  readonly poll_secs?: number;
  readonly name?: string;
  readonly where?: string;
  readonly pending_id?: string;
  readonly cron?: string;
  readonly tz?: string;
  readonly fired_at?: string;
}
