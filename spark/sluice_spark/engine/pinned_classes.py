"""The pinned Hudi bundle (1.0.2) and Spark, and the engine's classes that the one links to and the other has. Made by `make pinned-classes`."""

from __future__ import annotations

# A bundle and an engine that are known to fit: tests/spark/test_engine.py asks for every link.
PINNED_BUNDLE = "c609449e7d92466d"
PINNED_SPARK = "3.5.8"

_BY_PACKAGE = """
org/apache/avro AvroMissingFieldException AvroRuntimeException AvroTypeException Conversion Conversions Conversions$DecimalConversion Conversions$UUIDConversion
org/apache/avro JsonProperties JsonProperties$Null LogicalType LogicalTypes LogicalTypes$Date LogicalTypes$Decimal LogicalTypes$TimeMicros LogicalTypes$TimeMillis
org/apache/avro LogicalTypes$TimestampMicros LogicalTypes$TimestampMillis Schema Schema$Field Schema$Field$Order Schema$Parser Schema$Type SchemaCompatibility
org/apache/avro SchemaCompatibility$SchemaCompatibilityType SchemaCompatibility$SchemaPairCompatibility UnresolvedUnionException
org/apache/avro/data RecordBuilder TimeConversions TimeConversions$DateConversion TimeConversions$TimeMicrosConversion TimeConversions$TimestampMicrosConversion
org/apache/avro/file DataFileReader DataFileStream DataFileWriter FileReader SeekableByteArrayInput
org/apache/avro/generic GenericArray GenericContainer GenericData GenericData$Array GenericData$EnumSymbol GenericData$Fixed GenericData$Record GenericData$StringType
org/apache/avro/generic GenericDatumReader GenericDatumWriter GenericFixed GenericRecord GenericRecordBuilder IndexedRecord
org/apache/avro/io BinaryDecoder BinaryEncoder DatumReader DatumWriter DecoderFactory Encoder EncoderFactory JsonEncoder ParsingEncoder ResolvingDecoder
org/apache/avro/io/parsing JsonGrammarGenerator Parser Parser$ActionHandler Symbol Symbol$Alternative Symbol$EnumLabelsAction Symbol$FieldAdjustAction
org/apache/avro/io/parsing Symbol$IntCheckAction
org/apache/avro/message BinaryMessageDecoder BinaryMessageEncoder
org/apache/avro/specific SpecificData SpecificDatumReader SpecificDatumWriter SpecificRecord SpecificRecordBase SpecificRecordBuilderBase
org/apache/avro/util Utf8
org/apache/hadoop/conf Configurable Configuration
org/apache/hadoop/fs BlockLocation BufferedFSInputStream ContentSummary FSDataInputStream FSDataOutputStream FSInputStream FileAlreadyExistsException FileStatus FileSystem
org/apache/hadoop/fs FileSystem$Statistics GlobPattern LocalFileSystem LocatedFileStatus Options Options$ChecksumOpt Path PathFilter PositionedReadable RemoteIterator
org/apache/hadoop/fs Seekable
org/apache/hadoop/fs/permission FsAction FsPermission
org/apache/hadoop/fs/viewfs ViewFileSystem
org/apache/hadoop/io ArrayWritable BooleanWritable BytesWritable FloatWritable IntWritable LongWritable NullWritable Text Writable WritableComparable
org/apache/hadoop/ipc RemoteException
org/apache/hadoop/mapred FileInputFormat FileSplit InputFormat InputSplit InputSplitWithLocationInfo JobConf RecordReader Reporter SplitLocationInfo
org/apache/hadoop/mapred/lib CombineFileInputFormat CombineFileSplit
org/apache/hadoop/mapreduce InputSplit Job JobContext JobID RecordReader TaskAttemptID TaskID TaskType
org/apache/hadoop/mapreduce/lib/input FileInputFormat
org/apache/hadoop/mapreduce/task TaskAttemptContextImpl
org/apache/hadoop/security UserGroupInformation
org/apache/hadoop/util Progressable StringUtils
org/apache/parquet/column ParquetProperties ParquetProperties$WriterVersion
org/apache/parquet/column/statistics Statistics
org/apache/parquet/filter2/compat FilterCompat FilterCompat$Filter
org/apache/parquet/filter2/predicate FilterApi FilterPredicate
org/apache/parquet/format/converter ParquetMetadataConverter ParquetMetadataConverter$MetadataFilter
org/apache/parquet/hadoop ParquetFileReader ParquetFileWriter ParquetFileWriter$Mode ParquetInputFormat ParquetInputSplit ParquetReader ParquetReader$Builder
org/apache/parquet/hadoop ParquetRecordReader ParquetWriter ParquetWriter$Builder
org/apache/parquet/hadoop/api WriteSupport WriteSupport$FinalizedWriteContext
org/apache/parquet/hadoop/metadata BlockMetaData ColumnChunkMetaData ColumnPath CompressionCodecName FileMetaData ParquetMetadata
org/apache/parquet/hadoop/util ContextUtil
org/apache/parquet/io DelegatingSeekableInputStream InputFile OutputFile PositionOutputStream
org/apache/parquet/io/api Binary
org/apache/parquet/schema DecimalMetadata GroupType MessageType OriginalType PrimitiveStringifier PrimitiveType PrimitiveType$PrimitiveTypeName
org/apache/parquet/schema PrimitiveType$PrimitiveTypeNameConverter Type Type$Repetition Types Types$GroupBuilder Types$MessageTypeBuilder Types$PrimitiveBuilder
org/apache/spark Partition Partitioner SerializableWritable SparkConf SparkContext SparkContext$ SparkEnv SparkEnv$ SparkException SparkFiles TaskContext TaskContext$
org/apache/spark package$
org/apache/spark/api/java JavaPairRDD JavaRDD JavaRDD$ JavaSparkContext JavaSparkContext$ Optional
org/apache/spark/api/java/function FlatMapFunction Function2 PairFlatMapFunction
org/apache/spark/broadcast Broadcast
org/apache/spark/internal Logging
org/apache/spark/internal/config ConfigEntry
org/apache/spark/memory MemoryMode
org/apache/spark/metrics/source HiveCatalogMetrics$
org/apache/spark/paths SparkPath SparkPath$
org/apache/spark/rdd OrderedRDDFunctions PairRDDFunctions PartitionPruningRDD RDD RDD$
org/apache/spark/serializer KryoRegistrator KryoSerializer SerializerInstance
org/apache/spark/sql AnalysisException AnalysisException$ Column DataFrameReader DataFrameWriter Dataset Dataset$ Encoders KeyValueGroupedDataset RelationalGroupedDataset
org/apache/spark/sql Row Row$ RowFactory RuntimeConfig SQLContext SaveMode SparkSession SparkSession$ SparkSession$Builder SparkSessionExtensions TypedColumn functions
org/apache/spark/sql functions$ package$
org/apache/spark/sql/catalog Catalog
org/apache/spark/sql/catalyst CatalystTypeConverters CatalystTypeConverters$ FunctionIdentifier FunctionIdentifier$ InternalRow InternalRow$ TableIdentifier
org/apache/spark/sql/catalyst TableIdentifier$
org/apache/spark/sql/catalyst/analysis Analyzer EliminateSubqueryAliases$ FieldName MultiAlias NamedRelation NoSuchDatabaseException NoSuchNamespaceException
org/apache/spark/sql/catalyst/analysis NoSuchTableException PartitionSpec ResolveInsertionBase ResolvedFieldName ResolvedTable SimpleAnalyzer$ TableAlreadyExistsException
org/apache/spark/sql/catalyst/analysis TableOutputResolver$ UnresolvedAlias UnresolvedAlias$ UnresolvedAttribute UnresolvedAttribute$ UnresolvedExtractValue
org/apache/spark/sql/catalyst/analysis UnresolvedFieldName UnresolvedFieldName$ UnresolvedFieldPosition UnresolvedFunction UnresolvedFunction$ UnresolvedGenerator
org/apache/spark/sql/catalyst/analysis UnresolvedHaving UnresolvedIdentifier UnresolvedIdentifier$ UnresolvedInlineTable UnresolvedPartitionSpec UnresolvedRegex
org/apache/spark/sql/catalyst/analysis UnresolvedRelation UnresolvedRelation$ UnresolvedStar UnresolvedSubqueryColumnAliases UnresolvedTVFAliases$
org/apache/spark/sql/catalyst/analysis UnresolvedTableValuedFunction UnresolvedTableValuedFunction$ package package$ package$AnalysisErrorAt
org/apache/spark/sql/catalyst/catalog BucketSpec CatalogStatistics CatalogStorageFormat CatalogTable CatalogTable$ CatalogTablePartition CatalogTablePartition$
org/apache/spark/sql/catalyst/catalog CatalogTableType CatalogTableType$ CatalogUtils$ ExternalCatalog ExternalCatalogUtils$ ExternalCatalogWithListener HiveTableRelation
org/apache/spark/sql/catalyst/catalog SessionCatalog
org/apache/spark/sql/catalyst/encoders ExpressionEncoder ExpressionEncoder$ ExpressionEncoder$Deserializer ExpressionEncoder$Serializer
org/apache/spark/sql/catalyst/expressions Add Add$ Alias Alias$ AliasHelper And And$ Ascending$ Attribute AttributeEquals AttributeMap AttributeReference
org/apache/spark/sql/catalyst/expressions AttributeReference$ AttributeSet AttributeSet$ BaseGroupingSets BinaryComparison BindReferences$ BitwiseAnd BitwiseNot BitwiseOr
org/apache/spark/sql/catalyst/expressions BitwiseXor BoundReference CaseWhen Cast Cast$ Concat Contains$ CreateNamedStruct CreateStruct$ Cube$ CurrentDate CurrentDate$
org/apache/spark/sql/catalyst/expressions CurrentRow$ CurrentTimestamp CurrentUser DateAdd DateDiff DateFormatClass DateSub Descending$ Divide Divide$ EndsWith$
org/apache/spark/sql/catalyst/expressions EqualNullSafe EqualNullSafe$ EqualTo EqualTo$ Equality$ EvalMode$ Exists Exists$ Exp Expm1 ExprId Expression ExpressionInfo
org/apache/spark/sql/catalyst/expressions ExpressionSet ExpressionSet$ ExtractValue FrameType FromUTCTimestamp FromUnixTime GenericInternalRow GetStructField GreaterThan
org/apache/spark/sql/catalyst/expressions GreaterThan$ GreaterThanOrEqual GreaterThanOrEqual$ GroupingSets$ In InSet InSubquery IntegralDivide IntegralDivide$
org/apache/spark/sql/catalyst/expressions InterpretedPredicate IsNaN IsNotNull IsNotNull$ IsNotUnknown$ IsNull IsNull$ IsUnknown$ JoinedRow LambdaFunction LambdaFunction$
org/apache/spark/sql/catalyst/expressions LateralSubquery LateralSubquery$ Left LessThan LessThan$ LessThanOrEqual LessThanOrEqual$ Like LikeAll LikeAny ListQuery
org/apache/spark/sql/catalyst/expressions ListQuery$ Literal Literal$ Log Log10 Log1p Log2 Lower Multiply Multiply$ NamedExpression Not Not$ NotLikeAll NotLikeAny
org/apache/spark/sql/catalyst/expressions NullOrdering NullsFirst$ NullsLast$ Or Or$ Overlay ParseToDate ParseToTimestamp Predicate Predicate$ PredicateHelper
org/apache/spark/sql/catalyst/expressions ProjectionOverSchema RLike RangeFrame$ RegExpExtract RegExpReplace Remainder Remainder$ Rollup$ RowFrame$ SafeProjection$
org/apache/spark/sql/catalyst/expressions ScalarSubquery ScalarSubquery$ SchemaPruning SchemaPruning$ SchemaPruning$RootField ShiftLeft ShiftRight SortDirection SortOrder
org/apache/spark/sql/catalyst/expressions SortOrder$ SpecializedGetters SpecificInternalRow SpecifiedWindowFrame StartsWith StartsWith$ StringLocate StringSplit StringTrim
org/apache/spark/sql/catalyst/expressions StringTrimLeft StringTrimRight SubqueryExpression$ Substring Subtract Subtract$ ToUTCTimestamp ToUnixTimestamp UnaryExpression
org/apache/spark/sql/catalyst/expressions UnaryMinus UnaryMinus$ UnaryPositive UnboundedFollowing$ UnboundedPreceding$ UnixTimestamp UnresolvedNamedLambdaVariable
org/apache/spark/sql/catalyst/expressions UnresolvedWindowExpression UnsafeArrayData UnsafeProjection UnsafeProjection$ UnsafeRow UnspecifiedFrame$ Upper WindowExpression
org/apache/spark/sql/catalyst/expressions WindowFrame WindowSpec WindowSpecDefinition WindowSpecReference package package$ package$AttributeSeq package$NullIntolerant
org/apache/spark/sql/catalyst/expressions package$Projection
org/apache/spark/sql/catalyst/expressions/aggregate First Last
org/apache/spark/sql/catalyst/expressions/codegen GenerateUnsafeProjection$ LazilyGeneratedOrdering
org/apache/spark/sql/catalyst/optimizer ReplaceExpressions$
org/apache/spark/sql/catalyst/parser ParseErrorListener$ ParseException ParseException$ ParserInterface ParserUtils$ package package$ package$EnhancedLogicalPlan$
org/apache/spark/sql/catalyst/planning PhysicalOperation$ ScanOperation$
org/apache/spark/sql/catalyst/plans Cross$ FullOuter$ Inner$ JoinType LeftAnti$ LeftOuter$ LeftSemi$ NaturalJoin RightOuter$ UsingJoin
org/apache/spark/sql/catalyst/plans/logical AddColumns Aggregate AlterColumn AlterTableCommand AnalysisHelper$ Assignment ColumnStat Command CreateTable
org/apache/spark/sql/catalyst/plans/logical CreateTableAsSelect CreateTableAsSelect$ DeleteAction DeleteFromTable DescribeRelation Distinct DropColumns DropPartitions
org/apache/spark/sql/catalyst/plans/logical Except Filter FormatClasses Generate InsertAction InsertIntoDir InsertIntoStatement InsertIntoStatement$ InsertStarAction
org/apache/spark/sql/catalyst/plans/logical Intersect Join JoinHint$ LateralJoin LeafNode Limit$ LocalRelation LocalRelation$ LogicalPlan MergeAction MergeIntoTable
org/apache/spark/sql/catalyst/plans/logical OneRowRelation Pivot Project QualifiedColType RenameColumn RepartitionByExpression RepartitionByExpression$ ReplaceColumns
org/apache/spark/sql/catalyst/plans/logical Sample ScriptInputOutputSchema ScriptTransformation SerdeInfo SerdeInfo$ SetTableProperties ShowPartitions Sort Statistics
org/apache/spark/sql/catalyst/plans/logical SubqueryAlias SubqueryAlias$ TableSpec TruncatePartition TruncateTable UnaryNode Union Union$ UnresolvedHint UnresolvedWith
org/apache/spark/sql/catalyst/plans/logical UnsetTableProperties UpdateAction UpdateStarAction UpdateTable WithWindowDefinition
org/apache/spark/sql/catalyst/plans/logical/statsEstimation FilterEstimation
org/apache/spark/sql/catalyst/plans/physical Partitioning UnknownPartitioning
org/apache/spark/sql/catalyst/rules Rule
org/apache/spark/sql/catalyst/trees LeafLike Origin Origin$ TreeNode UnaryLike
org/apache/spark/sql/catalyst/types DataTypeUtils$
org/apache/spark/sql/catalyst/util ArrayBasedMapData ArrayData CharVarcharUtils$ DateFormatter DateTimeUtils DateTimeUtils$ GenericArrayData IntervalUtils$ MapData
org/apache/spark/sql/catalyst/util RebaseDateTime RebaseDateTime$RebaseSpec TimestampFormatter TimestampFormatter$ package$
org/apache/spark/sql/connector/catalog CatalogV2Implicits CatalogV2Implicits$ CatalogV2Implicits$BucketSpecHelper CatalogV2Implicits$IdentifierHelper
org/apache/spark/sql/connector/catalog DelegatingCatalogExtension Identifier StagedTable StagingTableCatalog SupportsWrite Table TableCapability TableCatalog TableChange
org/apache/spark/sql/connector/catalog TableChange$AddColumn TableChange$After TableChange$ColumnChange TableChange$ColumnPosition TableChange$DeleteColumn
org/apache/spark/sql/connector/catalog TableChange$First TableChange$RemoveProperty TableChange$RenameColumn TableChange$SetProperty TableChange$UpdateColumnComment
org/apache/spark/sql/connector/catalog TableChange$UpdateColumnNullability TableChange$UpdateColumnPosition TableChange$UpdateColumnType TableProvider V1Table
org/apache/spark/sql/connector/catalog V2TableWithV1Fallback
org/apache/spark/sql/connector/expressions ApplyTransform BucketTransform BucketTransform$ DaysTransform Expression FieldReference HoursTransform IdentityTransform
org/apache/spark/sql/connector/expressions IdentityTransform$ LiteralValue MonthsTransform NamedReference Transform YearsTransform
org/apache/spark/sql/connector/write BatchWrite DataWriter DataWriterFactory LogicalWriteInfo SupportsOverwrite V1Write WriteBuilder WriterCommitMessage
org/apache/spark/sql/errors DataTypeErrors$ QueryCompilationErrors$
org/apache/spark/sql/execution ExtendedMode$ FileRelation LogicalRDD LogicalRDD$ QueryExecution SQLExecution$ SimpleMode$ SparkPlan WholeStageCodegenExec$
org/apache/spark/sql/execution/command AlterTableAddColumnsCommand AlterTableAddPartitionCommand AlterTableChangeColumnCommand AlterTableDropPartitionCommand
org/apache/spark/sql/execution/command AlterTableRenameCommand AlterTableSetPropertiesCommand CreateDataSourceTableCommand CreateTableLikeCommand DDLUtils$
org/apache/spark/sql/execution/command DataWritingCommand DescribeTableCommand DropTableCommand ExplainCommand PartitionStatistics RepairTableCommand RunnableCommand
org/apache/spark/sql/execution/command ShowCreateTableCommand ShowPartitionsCommand TruncateTableCommand
org/apache/spark/sql/execution/datasources CreateTable DataSource DataSource$ DataSourceStrategy$ DataSourceUtils$ FileFormat FileFormat$ FileIndex FilePartition
org/apache/spark/sql/execution/datasources FilePartition$ FileScanRDD FileScanRDD$ FileStatusCache FileStatusCache$ FileStatusWithMetadata HadoopFsRelation
org/apache/spark/sql/execution/datasources InMemoryFileIndex InMemoryFileIndex$ LogicalRelation LogicalRelation$ NoopCache$ PartitionDirectory PartitionDirectory$
org/apache/spark/sql/execution/datasources PartitionPath PartitionSpec PartitionedFile PartitionedFile$ PartitioningUtils$ RecordReaderIterator
org/apache/spark/sql/execution/datasources/jdbc JdbcUtils$
org/apache/spark/sql/execution/datasources/orc OrcFileFormat
org/apache/spark/sql/execution/datasources/parquet ParquetFileFormat ParquetFilters ParquetFooterReader ParquetOptions ParquetReadSupport ParquetReadSupport$
org/apache/spark/sql/execution/datasources/parquet ParquetRowIndexUtil$ ParquetToSparkSchemaConverter ParquetWriteSupport ParquetWriteSupport$
org/apache/spark/sql/execution/datasources/parquet VectorizedParquetRecordReader
org/apache/spark/sql/execution/datasources/v2 DataSourceV2Relation
org/apache/spark/sql/execution/streaming HDFSMetadataLog Offset SerializedOffset Sink Source StreamExecution$
org/apache/spark/sql/execution/vectorized OffHeapColumnVector OnHeapColumnVector WritableColumnVector
org/apache/spark/sql/hive HiveExternalCatalog HiveExternalCatalog$ HiveUtils$
org/apache/spark/sql/hive/client HiveClient
org/apache/spark/sql/internal LegacyBehaviorPolicy$ SQLConf SQLConf$ SessionState StaticSQLConf$ VariableSubstitution
org/apache/spark/sql/sources AlwaysFalse AlwaysFalse$ AlwaysTrue AlwaysTrue$ And BaseRelation CreatableRelationProvider DataSourceRegister EqualNullSafe EqualTo Filter
org/apache/spark/sql/sources GreaterThan GreaterThanOrEqual In InsertableRelation IsNotNull IsNull LessThan LessThanOrEqual Not Or PrunedFilteredScan RelationProvider
org/apache/spark/sql/sources SchemaRelationProvider StreamSinkProvider StreamSourceProvider StringContains StringEndsWith StringStartsWith TableScan
org/apache/spark/sql/streaming OutputMode
org/apache/spark/sql/types ArrayType ArrayType$ AtomicType BinaryType BinaryType$ BooleanType BooleanType$ ByteType ByteType$ CalendarIntervalType$ CharType DataType
org/apache/spark/sql/types DataTypes DateType DateType$ DayTimeIntervalType DayTimeIntervalType$ Decimal Decimal$ DecimalType DecimalType$ DoubleType DoubleType$ FloatType
org/apache/spark/sql/types FloatType$ IntegerType IntegerType$ LongType LongType$ MapType MapType$ Metadata Metadata$ MetadataBuilder NullType$ NumericType ShortType
org/apache/spark/sql/types ShortType$ StringType StringType$ StructField StructField$ StructType StructType$ TimestampNTZType$ TimestampType TimestampType$ UserDefinedType
org/apache/spark/sql/types VarcharType YearMonthIntervalType YearMonthIntervalType$
org/apache/spark/sql/util CaseInsensitiveStringMap PartitioningUtils$ SchemaUtils$
org/apache/spark/sql/vectorized ColumnVector ColumnarBatch ColumnarBatchRow
org/apache/spark/storage StorageLevel StorageLevel$
org/apache/spark/unsafe Platform
org/apache/spark/unsafe/array ByteArrayMethods
org/apache/spark/unsafe/types CalendarInterval UTF8String
org/apache/spark/util AccumulatorV2 LongAccumulator MutablePair SerializableConfiguration ThreadUtils$ Utils Utils$
org/apache/spark/util/collection BitSet
org/apache/spark/util/random RandomSampler$ SamplingUtils$
scala Array$ Double$ Enumeration Enumeration$Val Enumeration$Value Enumeration$ValueOrdering$ Enumeration$ValueSet Enumeration$ValueSet$ Float$ Function0 Function1
scala Function2 Function3 MatchError None$ Option Option$ Predef Predef$ Predef$$less$colon$less Predef$ArrowAssoc$ Predef$DummyImplicit Predef$DummyImplicit$ Product
scala Product2 Serializable Some Tuple12 Tuple2 Tuple2$mcZI$sp Tuple2$mcZZ$sp Tuple3 Tuple4 Tuple5 Tuple6 Tuple7 Tuple8 Tuple9 package$
scala/collection AbstractIterable AbstractSeq GenIterable GenMap GenSeqLike GenSetLike GenTraversableOnce IndexedSeq IndexedSeqOptimized Iterable Iterable$ IterableLike
scala/collection Iterator Iterator$ Iterator$GroupedIterator JavaConverters JavaConverters$ LinearSeqOptimized Map MapLike Seq Seq$ SeqLike Set SetLike Traversable
scala/collection TraversableLike TraversableOnce
scala/collection/convert Decorators Decorators$AsJava Decorators$AsScala ImplicitConversions$
scala/collection/generic FilterMonadic GenericTraversableTemplate Growable
scala/collection/immutable $colon$colon IndexedSeq IndexedSeq$ Iterable Iterable$ List List$ Map Map$ MapLike Nil$ NumericRange NumericRange$Exclusive Range
scala/collection/immutable Range$Inclusive Seq Seq$ Set Set$ Stream Stream$ StringOps TreeSet TreeSet$
scala/collection/mutable ArrayBuffer ArrayBuffer$ ArrayOps ArrayOps$ofBoolean ArrayOps$ofInt ArrayOps$ofLong ArrayOps$ofRef Buffer Buffer$ BufferLike HashMap HashMap$
scala/collection/mutable HashSet HashSet$ Iterable$ LinkedHashSet LinkedHashSet$ ListBuffer ListBuffer$ ListMap ListMap$ Map Map$ MapLike Seq Set Set$ SetLike
scala/collection/mutable StringBuilder StringBuilder$ WrappedArray
scala/collection/parallel/mutable ParHashMap ParHashMap$
scala/math BigDecimal BigDecimal$ BigInt$ Numeric Numeric$DoubleIsFractional$ Numeric$IntIsIntegral$ Numeric$LongIsIntegral$ Ordered Ordering Ordering$ Ordering$Byte$
scala/math Ordering$Double$ Ordering$Float$ Ordering$Int$ Ordering$Long$ Ordering$Short$ Ordering$String$ package$
scala/reflect ClassTag ClassTag$ package$
scala/reflect/api Internals Internals$InternalApi Internals$ReificationSupportApi JavaUniverse JavaUniverse$JavaMirror Mirror Symbols Symbols$ModuleSymbolApi
scala/reflect/api Symbols$SymbolApi Symbols$TypeSymbolApi TypeCreator TypeTags TypeTags$TypeTag TypeTags$TypeTag$ Types Types$TypeApi Universe
scala/reflect/runtime package$
scala/runtime AbstractFunction0 AbstractFunction1 AbstractFunction12 AbstractFunction2 AbstractFunction3 AbstractFunction4 AbstractFunction5 AbstractFunction6
scala/runtime AbstractFunction7 AbstractFunction8 AbstractFunction9 AbstractPartialFunction BooleanRef BoxedUnit BoxesRunTime IntRef LambdaDeserialize LazyRef LongRef
scala/runtime NonLocalReturnControl Null$ ObjectRef RichInt$ RichLong ScalaRunTime$ Statics StructuralCallSite
scala/util Either Either$ Either$LeftProjection Either$RightProjection Failure Left Left$ Right Right$ Success Try Try$
scala/util/control Breaks$ NonFatal$
scala/util/hashing package$
scala/util/matching Regex
"""


def _names(lines: str) -> frozenset[str]:
    """Each line is a package and some of its classes."""
    words = (line.split() for line in lines.splitlines())
    return frozenset(f"{package}/{name}" for package, *names in filter(None, words) for name in names)


PINNED_CLASSES: frozenset[str] = _names(_BY_PACKAGE)
