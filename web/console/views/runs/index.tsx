import { Empty, Page } from '../../parts/index.tsx';

export default function View() {
  return (
    <Page title="runs">
      <Empty title="Nothing here yet." />
    </Page>
  );
}
