"""Prospects: imported from CSV files, deduplicated, and enriched with the data of providers."""

from handlers.outages import SURVIVES_OUTAGE
from handlers.prospects.payloads import DedupProspects, EnrichProspect, ImportProspects, ReviewMerge, UndoMerge
from handlers.prospects.quota import limits_of, read_quota
from mayfly import Job, concurrency, handler, setting

__handlers__ = ()  # all are declared here; the code that they need is imported when a job runs

QUOTA = read_quota(setting("HUNTER_QUOTA", "50/month"))


@handler("import_prospects", lane="import_prospects", requires=("IMPORT_FILES",))
def import_prospects(job: Job, wanted: ImportProspects) -> dict[str, object]:
    from handlers.prospects.csv_import import import_file

    return import_file(job, wanted)


@handler("dedup_prospects", lane="dedup_prospects", limits=concurrency("dedup_prospects", 1))
def dedup_prospects(job: Job, wanted: DedupProspects) -> dict[str, object]:
    from handlers.prospects.dedup import dedup

    return dedup(job, wanted)


@handler("undo_merge", lane="dedup_prospects")
def undo_merge(job: Job, wanted: UndoMerge) -> dict[str, int]:
    from handlers.prospects.merge import undo_merges

    return undo_merges(job, wanted)


@handler("review_merge", lane="dedup_prospects")
def review_merge(job: Job, wanted: ReviewMerge) -> dict[str, str]:
    from handlers.prospects.merge import review

    return review(job, wanted)


@handler(
    "enrich_prospect",
    lane="enrich",
    timeout=45,
    requires=("HUNTER_API_KEY",),
    takes=limits_of(QUOTA),
    **SURVIVES_OUTAGE,
)
def enrich_prospect(job: Job, wanted: EnrichProspect) -> dict[str, object]:
    from handlers.prospects.enrichment import enrich

    return enrich(job, wanted.prospect)
