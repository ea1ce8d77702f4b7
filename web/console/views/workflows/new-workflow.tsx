import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { agentsCss as css, consolePath } from '../../agents/parts.tsx';
import { Button, FaultNote, Loading, Page, Panel } from '../../../ui/index.tsx';
import { ConsentFacts } from './consent-facts.tsx';
import { SourcePanel } from './source-panel.tsx';
import { lintReportOf, storeWorkflow } from './store-workflow.ts';
import { useLint } from './use-lint.ts';

const template = `[ensemble]
name = "my-workflow"
version = "1.0.0"
description = "What it does, in a sentence."

[inputs.topic]
type = "string"
required = true
description = "What it is about."

[agents.writer]
instructions = "You write short, clear texts."

[[steps]]
id = "draft"
agent = "writer"
prompt = "Write about {{inputs.topic}}."

[[steps]]
id = "final"
needs = ["draft"]
agent = "writer"
prompt = "Improve this text by the remarks: {{gate.remarks}} {{steps.draft.output}}"
[steps.gate]
kind = "input"
message = "{{steps.draft.output}}"
[steps.gate.schema]
type = "object"
properties = { remarks = { type = "string", default = "" } }

[output]
from = "final"
`;

/** Editor for a new workflow; the source contains its name. */
export function NewWorkflow() {
  const [source, setSource] = useState(template);
  const lint = useLint(source);
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const create = useMutation({
    mutationFn: (text: string) => storeWorkflow(text),
    async onSuccess({ name }) {
      await queries.invalidateQueries({ queryKey: ['workflows'] });
      navigate(consolePath.workflow(name));
    },
  });
  // Shown only until the next lint, so that findings do not change while typing.
  const refusedReport = create.variables === lint.lintedSource ? lintReportOf(create.error) : undefined;
  return (
    <Page
      title="New workflow"
      lead="A workflow is a TOML document. Errors are marked at their lines while you type."
      tools={<Link href="/console/workflows">All workflows</Link>}
    >
      <div className={css['columns']}>
        <div className={css['stack']}>
          <SourcePanel source={source} onChange={setSource} lint={lint} refusedReport={refusedReport}>
            <Button kind="primary" busy={create.isPending} onClick={() => create.mutate(source)}>
              Store{lint.report?.name === undefined ? ' it' : ` as ${lint.report.name}`}
            </Button>
          </SourcePanel>
          {create.error !== null && !lintReportOf(create.error) && <FaultNote error={create.error} />}
        </div>
        <Panel title="Permissions">
          {lint.report?.consent ? (
            <ConsentFacts consent={lint.report.consent} />
          ) : lint.report ? (
            <p className={css['quiet']}>Shown when the source can be parsed.</p>
          ) : (
            <Loading what="the permissions" />
          )}
        </Panel>
      </div>
    </Page>
  );
}
