//! The published numbers.

/// The source of the quoted columns.
pub(crate) const SOURCE: &str = "quoted from the README of Iluvatar's GPU AES sample (BI-V100 GPU; CPU: \
                      Xeon Gold 6338), which does not name its mode; not measured here";

/// Bytes; then seconds on their CPU and GPU to encrypt, and to decrypt.
pub(crate) type Published = (usize, [Option<f64>; 2], [Option<f64>; 2]);

/// The published numbers; for the largest size the GPU's times alone.
pub(super) const PUBLISHED: [Published; 27] = [
    (
        1_028,
        [Some(0.00093), Some(0.002233)],
        [Some(0.001322), Some(0.000429)],
    ),
    (
        10_280,
        [Some(0.008991), Some(0.003121)],
        [Some(0.01004), Some(0.000609)],
    ),
    (
        20_560,
        [Some(0.017611), Some(0.002946)],
        [Some(0.014906), Some(0.000705)],
    ),
    (
        30_840,
        [Some(0.023546), Some(0.002193)],
        [Some(0.01679), Some(0.00635)],
    ),
    (
        41_120,
        [Some(0.028465), Some(0.004259)],
        [Some(0.018958), Some(0.000915)],
    ),
    (
        51_400,
        [Some(0.033969), Some(0.003112)],
        [Some(0.023432), Some(0.000697)],
    ),
    (
        61_680,
        [Some(0.035402), Some(0.002665)],
        [Some(0.045729), Some(0.000745)],
    ),
    (
        71_960,
        [Some(0.041557), Some(0.00241)],
        [Some(0.031783), Some(0.000931)],
    ),
    (
        82_240,
        [Some(0.042604), Some(0.002792)],
        [Some(0.031089), Some(0.00116)],
    ),
    (
        92_520,
        [Some(0.03111), Some(0.003305)],
        [Some(0.037953), Some(0.001506)],
    ),
    (
        102_800,
        [Some(0.04673), Some(0.004459)],
        [Some(0.039279), Some(0.001653)],
    ),
    (
        205_600,
        [Some(0.073755), Some(0.003202)],
        [Some(0.099175), Some(0.001677)],
    ),
    (
        308_400,
        [Some(0.106697), Some(0.004139)],
        [Some(0.150656), Some(0.002237)],
    ),
    (
        411_200,
        [Some(0.131373), Some(0.008021)],
        [Some(0.156407), Some(0.0034)],
    ),
    (
        514_000,
        [Some(0.171094), Some(0.005831)],
        [Some(0.24365), Some(0.003493)],
    ),
    (
        616_800,
        [Some(0.215339), Some(0.005563)],
        [Some(0.233965), Some(0.004851)],
    ),
    (
        719_600,
        [Some(0.229566), Some(0.006011)],
        [Some(0.286835), Some(0.004768)],
    ),
    (
        822_400,
        [Some(0.259756), Some(0.005742)],
        [Some(0.324907), Some(0.005565)],
    ),
    (
        925_200,
        [Some(0.293303), Some(0.006823)],
        [Some(0.381364), Some(0.005664)],
    ),
    (
        1_028_000,
        [Some(0.332662), Some(0.00651)],
        [Some(0.418857), Some(0.007)],
    ),
    (
        2_056_000,
        [Some(0.609177), Some(0.011234)],
        [Some(0.837549), Some(0.012375)],
    ),
    (
        3_084_000,
        [Some(0.925097), Some(0.013653)],
        [Some(1.271464), Some(0.017692)],
    ),
    (
        4_112_000,
        [Some(1.204424), Some(0.017288)],
        [Some(1.736208), Some(0.023058)],
    ),
    (
        5_140_000,
        [Some(1.533855), Some(0.022738)],
        [Some(2.138798), Some(0.028484)],
    ),
    (
        6_168_000,
        [Some(1.818599), Some(0.023309)],
        [Some(2.54178), Some(0.034982)],
    ),
    (
        7_196_000,
        [Some(2.179289), Some(0.027286)],
        [Some(2.923416), Some(0.040508)],
    ),
    (102_800_000, [None, Some(0.380_751)], [None, Some(0.552_25)]),
];

/// The largest of them.
pub(crate) const LARGEST: Published = PUBLISHED[PUBLISHED.len() - 1];
