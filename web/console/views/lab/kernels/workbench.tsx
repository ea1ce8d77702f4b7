import { useMutation } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { api, unwrap } from '../../../../api/client.ts';
import { CodeEditor, type Diagnostic } from '../../../../ui/code-editor.tsx';
import { Button, Confirm, Field, FaultNote, Loading, Panel, Row } from '../../../../ui/index.tsx';
import { BindForm } from './bind-form.tsx';
import { type Draft, isChanged, saveDraft, readDraft, type Report } from './drafts.ts';
import { GateReport, reportDiagnostics, verdictOf } from './gate-report.tsx';
import css from './kernels.module.css';
import { ManifestFields } from './manifest-fields.tsx';
import { directives, type Registration, registrationOf, withDirectives } from './manifest.ts';
import { OpFacts } from './op-facts.tsx';
import { profileDiagnostics, ProfilePanel } from './profile-panel.tsx';
import { fetchStub, type Op, useRefreshLab } from './queries.ts';

type StubChoice = Pick<Draft, 'target' | 'format'>;

/** Editor for the kernel of an op, with manifest fields and gate report. Remounted for each op. */
export function Workbench({ op }: { op: Op }) {
  const [draft, setDraft] = useState(() => readDraft(op.op));
  const [diagnostics, setDiagnostics] = useState<readonly Diagnostic[]>(() => currentDiagnostics(draft));
  const [goTo, setGoTo] = useState<{ line: number; column: number }>();
  const [confirmStub, setConfirmStub] = useState<StubChoice>();
  const latest = useRef(draft);
  const reportElement = useRef<HTMLDivElement>(null);
  const updateDraft = (next: Draft) => {
    latest.current = next;
    setDraft(next);
    saveDraft(op.op, next);
  };
  const loadStub = useMutation({
    mutationFn: (stub: StubChoice) => fetchStub(op.op, stub),
    onSuccess: ({ source: text, target, format }) => {
      const source = withDirectives(text, 'name', [`my_${op.op}`]);
      setDiagnostics([]);
      updateDraft({ source, stub: source, target, ...(format === undefined ? {} : { format }) });
    },
  });
  const { mutate: startFromStub } = loadStub;
  const isNew = draft === undefined;
  useEffect(() => {
    if (isNew) startFromStub({ target: op.targets[0] ?? 'plain' });
  }, [isNew, startFromStub, op]);
  const startFrom = (stub: StubChoice) => {
    if (draft && isChanged(draft)) setConfirmStub(stub);
    else startFromStub(stub);
  };

  const gate = useGate((registration, gateReport) => {
    const { source } = registration;
    const now = latest.current;
    if (!now) return;
    updateDraft({ ...now, checked: { source, report: gateReport } });
    setDiagnostics(now.source === source ? reportDiagnostics(gateReport) : []);
  });
  const check = () => {
    if (!draft || gate.isBusy) return;
    const parsed = registrationOf(draft.source, op.op);
    if ('faults' in parsed) {
      setDiagnostics(parsed.faults);
      const [first] = parsed.faults;
      if (first) setGoTo({ line: first.line, column: first.column });
      return;
    }
    gate.send(parsed.registration);
  };

  if (!draft)
    return loadStub.error ? (
      <FaultNote error={loadStub.error} retry={() => startFromStub({ target: 'plain' })} />
    ) : (
      <Loading what="the stub" />
    );
  const edit = (source: string) => {
    updateDraft({ ...(latest.current ?? draft), source });
    // Reported manifest faults are updated while the user corrects them.
    if (faultCount > 0) setDiagnostics(faultsOf(registrationOf(source, op.op)));
  };
  const faultCount = diagnostics.filter(({ source }) => source === 'manifest').length;
  const { checked } = draft;
  return (
    <>
      <Panel
        title={`Kernel for ${op.op}`}
        tools={
          <>
            <Button onClick={() => startFrom(draft)} busy={loadStub.isPending}>
              Reset to the stub
            </Button>
            {gate.isBusy && <Button onClick={gate.stop}>Stop the check</Button>}
            <Button kind="primary" busy={gate.isBusy} onClick={check}>
              {gate.isBusy ? 'Checking ...' : 'Check and register'}
            </Button>
          </>
        }
      >
        <OpFacts op={op} />
        {loadStub.error && <FaultNote error={loadStub.error} />}
        <div className={css['bench']}>
          <div className={css['side']}>
            <CodeEditor
              label={`WGSL of the kernel for ${op.op}`}
              language="wgsl"
              value={draft.source}
              onChange={edit}
              diagnostics={diagnostics}
              onRun={check}
              lines={26}
              goTo={goTo}
            />
            <Row>
              <div role="status">
                {!gate.isBusy && checked && checked.source === draft.source && (
                  <>
                    {checked.report.kernel}: {verdictOf(checked.report)}.
                  </>
                )}
                {gate.isBusy &&
                  'The gate is checking the kernel. A kernel that does not finish is stopped after 20 s.'}
                {faultCount > 0 &&
                  `Nothing was sent: ${faultCount} of the //! lines ${faultCount === 1 ? 'is' : 'are'} invalid, as marked in the source.`}
              </div>
              {checked && !gate.isBusy && (
                <Button onClick={() => reportElement.current?.focus()}>Go to the report</Button>
              )}
            </Row>
          </div>
          <div className={css['side']}>
            <Field
              label="Stub"
              hint={
                isChanged(draft)
                  ? 'Your draft differs from the stub. It is kept while this tab is open.'
                  : 'The unchanged stub passes the gate.'
              }
            >
              {(control) => (
                <select
                  {...control}
                  value={draft.target}
                  onChange={({ target }) =>
                    startFrom({ ...draft, target: target.value as StubChoice['target'] })
                  }
                >
                  {op.targets.map((target) => (
                    <option key={target}>{target}</option>
                  ))}
                </select>
              )}
            </Field>
            {op.dtypes.length > 0 && (
              <Field label="Weight format of the stub">
                {(control) => (
                  <select
                    {...control}
                    value={draft.format}
                    onChange={({ target }) => startFrom({ ...draft, format: target.value })}
                  >
                    {op.dtypes.map((format) => (
                      <option key={format}>{format}</option>
                    ))}
                  </select>
                )}
              </Field>
            )}
            <ManifestFields op={op} source={draft.source} change={edit} />
          </div>
        </div>
        {gate.error !== null && <FaultNote error={gate.error} />}
      </Panel>
      {checked && (
        <div ref={reportElement} tabIndex={-1}>
          <GateReport report={checked.report} isStale={checked.source !== draft.source} goTo={setGoTo} />
        </div>
      )}
      {checked && checked.report.stages.some(({ stage, ok }) => stage === 'pipeline' && ok) && (
        <ProfilePanel
          kernel={checked.report.kernel}
          onProfile={(profile) => {
            if (latest.current?.source === checked.source)
              setDiagnostics([...reportDiagnostics(checked.report), ...profileDiagnostics(profile)]);
          }}
          goTo={setGoTo}
        />
      )}
      {checked?.report.accepted && (
        <Panel title={`Bind ${checked.report.kernel}`}>
          <BindForm kernel={checked.report.kernel} globs={directives(checked.source, 'bind')} />
        </Panel>
      )}
      <Confirm
        title="Replace your draft?"
        isOpen={confirmStub !== undefined}
        action="Replace"
        onClose={() => setConfirmStub(undefined)}
        onConfirm={() => {
          if (confirmStub !== undefined) startFromStub(confirmStub);
          setConfirmStub(undefined);
        }}
      >
        <p>
          The stub ({confirmStub?.target}) replaces your draft for {op.op}. You can undo this in the editor
          until you leave the page.
        </p>
      </Confirm>
    </>
  );
}

/** Sends kernels to the gate, one at a time; a check is aborted on unmount. */
function useGate(onDone: (registration: Registration, report: Report) => void) {
  const refresh = useRefreshLab();
  const running = useRef<AbortController>(null);
  useEffect(() => () => running.current?.abort(), []);
  const { mutate, isPending, error } = useMutation({
    mutationFn: async (registration: Registration) => {
      const controller = new AbortController();
      running.current = controller;
      const { signal } = controller;
      try {
        const report = await unwrap(api.POST('/lab/v1/kernels', { body: registration, signal }));
        onDone(registration, report);
      } catch (failure) {
        if (!signal.aborted) throw failure;
      }
      // Not awaited: the next check does not wait for the lists, which are slow on a slow host.
      if (!signal.aborted) void refresh();
    },
  });
  return { send: mutate, isBusy: isPending, error, stop: () => running.current?.abort() };
}

const faultsOf = (parsed: ReturnType<typeof registrationOf>) => ('faults' in parsed ? parsed.faults : []);

/** Diagnostics of the last check, if the source has not changed since. */
const currentDiagnostics = (draft: Draft | undefined): readonly Diagnostic[] =>
  draft?.checked?.source === draft?.source && draft?.checked ? reportDiagnostics(draft.checked.report) : [];
